"""A model without function calling that calls tools in the text format; to its agent it is like any other model."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from typing_extensions import override

from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import DECLINED, ModelChunk, ModelReply, ModelRequest, ToolSpec, Usage
from archon_mesh.llm.chunks import stream_reply
from archon_mesh.llm.exchanges import begin
from archon_mesh.llm.text_format.answer_stream import AnswerStream
from archon_mesh.llm.text_format.calls import INPUT, ParsedCall
from archon_mesh.llm.text_format.errors import ParsingError
from archon_mesh.llm.text_format.parse import extract_json_from_text, parse_llm_action_response, prose_of
from archon_mesh.llm.text_format.prompt import repair_of, to_text
from archon_mesh.llm.wrappers.wrapper import ModelWrapper, stream_of

REPAIRS: Final = 1
"""How often a reply that cannot be read is asked for again."""

MAX_LOGGED: Final = 1_000
"""Characters of a reply that cannot be read which the log gets."""

_log = logging.getLogger(__name__)


class TextToolModel(ModelWrapper):
    """Wraps a model client: tools go into the system prompt, and calls are read from the text of the reply.

    A reply that cannot be read is asked for again as JSON, REPAIRS times; then plain prose is the answer, and with
    anything else the call fails with ParsingError of the kind `model.format`. A tool that does not exist is passed on
    as a call. Closing it closes the wrapped client.
    """

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Yields the final answer as it comes, and the thought of a call once the call is known.

        Chunks without shown text are yielded empty: they tell that the model is at work."""
        text_request, used = to_text(request), Usage(0, 0)
        for repairs_left in range(REPAIRS, -1, -1):
            answer, reply, exchange = AnswerStream(), None, begin(text_request)
            try:
                async with aclosing(stream_of(self._client, text_request)) as chunks:
                    async for chunk in chunks:
                        reply = chunk.reply or reply
                        exchange.text += chunk.text_delta
                        yield ModelChunk(answer.feed(chunk.text_delta), chunk.thinking_delta)
            finally:
                exchange.end(reply)
            assert reply is not None
            used += reply.usage
            try:
                parsed = _read(reply, request, is_last=not repairs_left)
            except ParsingError as error:
                error.reply = replace(reply, usage=used)
                raise
            if parsed is not None:
                rest = parsed.text.removeprefix(answer.emitted) if parsed.text.startswith(answer.emitted) else ""
                async for chunk in stream_reply(replace(parsed, text=rest)):
                    if chunk.reply is None:
                        yield chunk
                yield ModelChunk(reply=replace(parsed, usage=used))
                return
            exchange.refusal = "the reply does not keep to the text format"
            text_request = repair_of(text_request, reply.text)


def _read(reply: ModelReply, request: ModelRequest, *, is_last: bool) -> ModelReply | None:
    """Returns the reply with its call or its answer; None if it cannot be read and the model may be asked again.

    Without tools, every text is an answer, and so is prose in the last reply. Raises ParsingError for any other reply
    that cannot be read.
    """
    tools, is_typed = request.tools, request.output_schema is not None
    if reply.finish_reason == DECLINED:
        return reply
    # A model that stopped by itself has written its last line to its end.
    text = reply.text + "\n" if reply.finish_reason == "stop" else reply.text
    try:
        parsed = parse_llm_action_response(text)
    except ParsingError as error:
        if not tools or (is_typed and _has_json(reply.text)):
            return reply
        if not is_last:
            return None
        if prose := prose_of(reply.text):
            return replace(reply, text=prose)
        _log.warning("%s: a reply cannot be read: %s", reply.model, " ".join(reply.text.split())[:MAX_LOGGED])
        raise ParsingError(f"the model {reply.model} does not keep to the text format: {error}") from None
    if parsed.call is None:
        is_bare = is_typed and reply.text.lstrip().startswith("{")  # the answer is read as JSON, not as a text
        return reply if is_bare else replace(reply, text=parsed.final_answer or "")
    if not tools:
        return reply
    call = _fitted(parsed.call, tools)
    if is_typed and call.tool not in {tool.name for tool in tools} and reply.text.lstrip().startswith("{"):
        return reply  # an answer with a property such as `name` looks like a call
    tool_call = ToolCall("", call.tool, json.dumps(dict(call.arguments), ensure_ascii=False, default=str))
    return replace(reply, text=parsed.thought, tool_calls=(tool_call,), finish_reason="tool_calls")


def _has_json(text: str) -> bool:
    try:
        extract_json_from_text(text)
    except ParsingError:
        return False
    return True


def _fitted(call: ParsedCall, tools: Sequence[ToolSpec]) -> ParsedCall:
    """Returns the call with the tool's name as it is declared, and a plain text under the name of the only argument."""
    tool = next((tool for tool in tools if tool.name == call.tool), None)
    if tool is None:
        tool = next((tool for tool in tools if tool.name.lower() == call.tool.lower()), None)
    if tool is None:
        return call
    properties: Mapping[str, Any] = tool.parameters_schema.get("properties", {})
    names = list(tool.parameters_schema.get("required", ())) or list(properties)
    if call.arguments.keys() == {INPUT} and INPUT not in properties and len(names) == 1:
        return ParsedCall(tool.name, {names[0]: call.arguments[INPUT]})
    return ParsedCall(tool.name, call.arguments)
