"""The final answer as a tool: its arguments are the answer. For APIs that enforce a schema for tools only."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest, ToolSpec
from archon_mesh.llm.structured.asked_schema import is_note

NAME: Final = "final_answer"

_DESCRIPTION: Final = (
    "Gives your final answer, and ends the task. Call it alone, once you need no other tool. Reply in no other way."
)


class FinalAnswer:
    """The tool of one request with an `output_schema`. `request` is the request with it, and without the message that
    asks for the schema in words."""

    def __init__(self, request: ModelRequest) -> None:
        assert request.output_schema is not None
        self._name = _free({tool.name for tool in request.tools})
        tool = ToolSpec(self._name, _DESCRIPTION, request.output_schema)
        self.request = replace(
            request,
            messages=tuple(message for message in request.messages if not is_note(message)),
            tools=(*request.tools, tool),
        )
        self._index: int | None = None
        """The index of the call that is streamed."""

    @classmethod
    def needed(cls, request: ModelRequest) -> FinalAnswer | None:
        """Returns the tool for an API without response formats; None if the request has no schema, or asks for it in
        its messages only."""
        return cls(request) if request.output_schema is not None and not request.is_json else None

    @staticmethod
    async def streamed(
        final: FinalAnswer | None, request: ModelRequest, stream: Callable[[ModelRequest], AsyncGenerator[ModelChunk]]
    ) -> AsyncGenerator[ModelChunk]:
        """Yields the chunks of `stream` for the request; with a tool `final`, for the request with it."""
        async with aclosing(stream(request if final is None else final.request)) as chunks:
            async for chunk in chunks:
                yield chunk if final is None else final.chunk(chunk)

    def chunk(self, chunk: ModelChunk) -> ModelChunk:
        """Returns a chunk of the reply with the arguments of the tool as text."""
        if chunk.reply is not None:
            return replace(chunk, reply=self.reply(chunk.reply))
        delta = chunk.tool_call_delta
        if delta is None or (delta.name != self._name and delta.index != self._index):
            return chunk
        if self._index is None:
            self._index = delta.index
        is_first = delta.index == self._index
        return ModelChunk(chunk.text_delta + (delta.arguments_delta if is_first else ""), chunk.thinking_delta)

    def reply(self, reply: ModelReply) -> ModelReply:
        """Returns the reply with the arguments of the tool as its text; without the call if there are others besides,
        whose results the model has not seen yet."""
        answers = [call for call in reply.tool_calls if call.name == self._name]
        others = tuple(call for call in reply.tool_calls if call.name != self._name)
        if not answers:
            return reply
        if others:
            return replace(reply, tool_calls=others, provider_state=None)
        reason = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
        text = answers[0].arguments_json
        return replace(reply, text=text, tool_calls=(), finish_reason=reason, provider_state=None)


def _free(names: Iterable[str]) -> str:
    taken, name = {*names}, NAME
    while name in taken:
        name += "_"
    return name
