"""A model that fails by name, around any model client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from typing_extensions import override

from archon.errors import ArchonError, Unavailable
from archon.failure_kinds import PROVIDER
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelReply, ModelRequest, estimate_usage
from archon_mesh.llm.chunks import stream_reply
from archon_mesh.llm.provider_errors import status_error
from archon_mesh.llm.wrappers.wrapper import ModelWrapper, stream_of
from archon_mesh.testing.injected_fault import CallFault, CallFaults, InjectedFault, NamedFault


class ModelFault(NamedFault):
    """The faults of a model, for `FaultyModel.fault`."""

    RATE_LIMITED = (
        "rate_limited",
        "the endpoint answers 429 with `retry-after`, of `retry_after` seconds",
        "the call is made again after that time, up to 3 times; then `ResourceExhausted`",
    )
    UNAVAILABLE = (
        "unavailable",
        "the endpoint answers 503",
        "the call is made again after a pause, up to 3 times; then `Unavailable`",
    )
    REFUSED = (
        "refused",
        "the endpoint answers 401, as with a wrong key",
        "`Unauthenticated`, at once: no call is made again",
    )
    TOO_LONG = (
        "too_long",
        "the endpoint answers 400: the request exceeds the context window",
        "the history is compacted, if the agent does that; else `InvalidArgument`",
    )
    HANGS = (
        "hangs",
        "no byte of a reply comes",
        "`DeadlineExceeded` after the time limits of the call, of which VirtualTime lets minutes pass at once",
    )
    BROKEN_STREAM = (
        "broken_stream",
        "the model's reply breaks off after its first words",
        "the call is made again, and the words before are a message of their own; then `Unavailable`",
    )
    INVALID_JSON = (
        "invalid_json",
        "the endpoint sends bytes that are no JSON",
        "the call is made again after a pause, up to 3 times; then `Unavailable`",
    )
    GARBAGE = (
        "garbage",
        "the reply is a call of a tool that does not exist, whose arguments break off",
        "the model receives the error as the result of its call, and goes on",
    )


_ANSWERS: Final = {
    ModelFault.RATE_LIMITED: (429, "rate_limit_exceeded", "too many requests"),
    ModelFault.UNAVAILABLE: (503, "server_error", "the server is overloaded"),
    ModelFault.REFUSED: (401, "invalid_api_key", "wrong key"),
    ModelFault.TOO_LONG: (400, "context_length_exceeded", "maximum context length exceeded"),
}
"""Status, code and message of the faults that are answers of an endpoint."""


class FaultyModel(ModelWrapper):
    """A model client around `client` that fails while a fault is active, and otherwise passes calls on:

        model = FaultyModel(ScriptedModel(["It is 45."]))
        async with model.fault("rate_limited", times=2):
            ...  # the first two calls are refused, the third has the reply

    Of several active faults the last one hits.
    """

    def __init__(self, client: ModelClient) -> None:
        super().__init__(client)
        self._faults = CallFaults(ModelFault)

    @property
    def failed(self) -> int:
        """The number of calls that a fault has hit."""
        return self._faults.hits

    def fault(self, fault: ModelFault | str, *, times: int | None = None, retry_after: float = 1.0) -> InjectedFault:
        """Returns a fault that hits all calls from its start until it is healed, or the first `times` of them.
        `retry_after` is in seconds, for `rate_limited`.

        Raises InvalidArgument if there is no fault of this name, `times` is below 1, or `retry_after` is negative.
        """
        return self._faults.inject(fault, times, retry_after)

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        hit = self._faults.hit()
        chunks = stream_of(self._client, request) if hit is None else self._failing(hit, request)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def _failing(self, hit: CallFault[ModelFault], request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        match hit.fault:
            case ModelFault.HANGS:
                await asyncio.Event().wait()
            case ModelFault.INVALID_JSON:
                raise Unavailable("the model endpoint sent invalid JSON", kind=PROVIDER)
            case ModelFault.BROKEN_STREAM:
                yield ModelChunk(text_delta="As far as I ")
                raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER)
            case ModelFault.GARBAGE:
                calls = (ToolCall("garbage", "no_such_tool", '{"a": 1, "b'),)
                reply = ModelReply("", calls, estimate_usage(request, "", calls), self.model, "tool_calls")
                async for chunk in stream_reply(reply):
                    yield chunk
            case _:
                raise _answer(hit)


def _answer(hit: CallFault[ModelFault]) -> ArchonError:
    """Returns the error that the clients of endpoints make of this answer."""
    status, code, message = _ANSWERS[hit.fault]
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    headers = {"retry-after": f"{hit.retry_after:g}"} if hit.fault is ModelFault.RATE_LIMITED else {}
    return status_error(status, headers, body, "")
