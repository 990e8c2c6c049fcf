"""A model whose replies are known beforehand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, Usage

Said = ModelReply | BaseException | Callable[[ModelRequest], ModelReply]


def says(text: str = "", *calls: ToolCall) -> ModelReply:
    """A reply of 10 tokens to 100."""
    return ModelReply(text, calls, Usage(100, 10), "scripted", "tool_calls" if calls else "stop")


class ScriptedModel:
    """Answers the first request with the first reply, and so on; `requests` are those it got. Raises AssertionError
    where the script has no reply left."""

    model = "scripted"

    def __init__(self, *replies: Said) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        assert self._replies, f"no reply is left for request {len(self.requests)}"
        reply = self._replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply if isinstance(reply, ModelReply) else reply(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        reply = await self.generate(request)
        if reply.text:
            yield ModelChunk(text_delta=reply.text)
        yield ModelChunk(reply=reply)

    async def close(self) -> None:
        pass
