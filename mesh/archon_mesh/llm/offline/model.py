"""The offline model as a model client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest, estimate_tokens, estimate_usage
from archon_mesh.llm.chunks import stream_reply
from archon_mesh.llm.offline.coordinate import next_step
from archon_mesh.llm.offline.example_json import example_json
from archon_mesh.llm.offline.plan import write_plan
from archon_mesh.llm.offline.reply import write_reply
from archon_mesh.llm.structured.asked_schema import is_note

_LARGE = 100_000  # characters; longer requests are analysed on a thread


class OfflineModel:
    """Answers by rules of text. The same messages always give the same reply, which says that it is from this model.

    With tools it coordinates: it calls each once, in the recommended order, and combines their answers. It makes plans
    and writes their answers, lists the requirements in a text, and answers any other task with a summary of its
    messages. An answer with a schema has the reply in its texts. Usage is estimated at four characters per token, and
    `max_tokens` is applied to the estimate; `temperature` and `timeout` have no effect.
    """

    provider = "archon.offline"

    @property
    def model(self) -> str:
        return "offline"

    async def generate(self, request: ModelRequest) -> ModelReply:
        is_large = sum(len(message.content) for message in request.messages) > _LARGE
        text, calls = await asyncio.to_thread(_reply, request) if is_large else _reply(request)
        text = text.removeprefix(_begun(request)) or text
        finish_reason = "tool_calls" if calls else "stop"
        if request.max_tokens is not None and estimate_tokens(text) > request.max_tokens:
            text, finish_reason = text[: 4 * request.max_tokens], "length"
        return ModelReply(text, calls, estimate_usage(request, text, calls), self.model, finish_reason)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        async for chunk in stream_reply(await self.generate(request)):
            yield chunk

    async def close(self) -> None:
        pass


def _reply(request: ModelRequest) -> tuple[str, tuple[ToolCall, ...]]:
    if request.output_schema is not None and not request.is_json:
        messages = [message for message in request.messages if not is_note(message)]
        text, calls = _reply(replace(request, messages=messages, output_schema=None))
        return (text if calls else example_json(request.output_schema, text)), calls
    if request.tools and (step := next_step(request.messages, request.tools)) is not None:
        return step
    return write_plan(request.messages) or write_reply(request.messages), ()


def _begun(request: ModelRequest) -> str:
    """Returns the texts of earlier replies of the same answer, each cut at its limit."""
    parts: list[str] = []
    for message in reversed(request.messages):
        if message.role == "assistant" and not message.tool_calls:
            parts.append(message.content)
        elif message.role != "system":
            break
    return "".join(reversed(parts))
