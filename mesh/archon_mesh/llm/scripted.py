"""A model whose replies are known beforehand, for tests of agents.

model = ScriptedModel([ToolCall("1", "multiply", '{"a": 15, "b": 3}'), "It is 45."])
agent = Agent("clerk", model=model, tools=[multiply])
assert await agent.run_async("Multiply 15 by 3") == "It is 45."
assert model.requests[1].messages[-1].content == "45"
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from archon.errors import FailedPrecondition
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest, estimate_usage
from archon_mesh.llm.chunks import stream_reply
from archon_mesh.llm.media import EVERYTHING

Response = str | ToolCall | Sequence[ToolCall] | ModelReply | BaseException
"""A text, one or several tool calls, a whole reply, or an error that the call raises."""

Responder = Callable[[ModelRequest], Response]
"""Computes a response from the request."""


class ScriptedModel:
    """Answers the requests with `responses`, one after the other, or all of them with one function of the request.

    A response may be a function, too. `requests` has all requests so far. The usage is estimated, except in a
    ModelReply. A request after the last response raises FailedPrecondition, which no agent retries. It takes all files.
    """

    media = EVERYTHING

    def __init__(self, responses: Iterable[Response | Responder] | Responder = ()) -> None:
        if isinstance(responses, str):
            raise TypeError(f"responses must be a list, or a function of the request, not the text {responses!r}")
        self._responder = responses if callable(responses) else None
        self._responses = deque(() if callable(responses) else responses)
        self.requests: list[ModelRequest] = []

    @property
    def model(self) -> str:
        return "scripted"

    @property
    def remaining(self) -> int:
        """The number of responses that are left; 0 if a function answers all requests."""
        return len(self._responses)

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        response: Response | Responder
        if self._responder is not None:
            response = self._responder
        elif self._responses:
            response = self._responses.popleft()
        else:
            last = request.messages[-1] if request.messages else None
            asked = f", whose last message is {last.role}: {last.content[:200]!r}" if last is not None else ""
            raise FailedPrecondition(
                f"the scripted model has {len(self.requests) - 1} responses, and none for request "
                f"{len(self.requests)}{asked}"
            )
        if callable(response):
            response = response(request)
        if isinstance(response, BaseException):
            raise response
        return _as_reply(request, response)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        async for chunk in stream_reply(await self.generate(request)):
            yield chunk

    async def close(self) -> None:
        pass


def _as_reply(request: ModelRequest, response: str | ToolCall | Sequence[ToolCall] | ModelReply) -> ModelReply:
    if isinstance(response, ModelReply):
        return response
    if isinstance(response, str):
        return ModelReply(response, (), estimate_usage(request, response), "scripted", "stop")
    calls = (response,) if isinstance(response, ToolCall) else tuple(response)
    return ModelReply("", calls, estimate_usage(request, "", calls), "scripted", "tool_calls")
