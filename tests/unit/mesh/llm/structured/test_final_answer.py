"""The final answer as a tool, which nothing but its model sees."""

from __future__ import annotations

import pytest

from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ToolCallDelta, ToolSpec, Usage
from archon_mesh.llm.structured import AskedSchema, FinalAnswer

ASKED = AskedSchema.of({"type": "object", "properties": {"city": {"type": "string"}}})
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})


def final(*tools: ToolSpec) -> FinalAnswer:
    messages = (ASKED.note(), ChatMessage("user", "Where?"))
    return FinalAnswer(ModelRequest(messages, tools, output_schema=ASKED.schema))


def reply(text: str, *calls: ToolCall, reason: str = "tool_calls") -> ModelReply:
    return ModelReply(text, calls, Usage(1, 1), "m", reason, {"provider": "x"})


def test_request_has_the_tool_in_place_of_the_note() -> None:
    request = final(LOOK).request
    assert [tool.name for tool in request.tools] == ["look", "final_answer"]
    assert request.tools[1].parameters_schema == ASKED.schema
    assert [message.content for message in request.messages] == ["Where?"]


def test_name_of_the_tool_is_free() -> None:
    taken = ToolSpec("final_answer", "Something else.", {"type": "object"})
    assert [tool.name for tool in final(taken).request.tools] == ["final_answer", "final_answer_"]


def test_arguments_are_the_answer() -> None:
    answered = final().reply(reply("Here it is.", ToolCall("1", "final_answer", '{"city": "Rome"}')))
    assert (answered.text, answered.tool_calls, answered.finish_reason) == ('{"city": "Rome"}', (), "stop")


def test_answer_besides_other_calls_waits_for_their_results() -> None:
    look = ToolCall("1", "look", "{}")
    answered = final(LOOK).reply(reply("", look, ToolCall("2", "final_answer", '{"city": "Rome"}')))
    assert (answered.text, answered.tool_calls, answered.finish_reason) == ("", (look,), "tool_calls")


@pytest.mark.parametrize("calls", [(), (ToolCall("1", "look", "{}"),)])
def test_reply_without_the_tool_stays_as_it_is(calls: tuple[ToolCall, ...]) -> None:
    plain = reply("Rome", *calls)
    assert final(LOOK).reply(plain) is plain


def test_cut_answer_is_told_as_cut() -> None:
    cut = reply("", ToolCall("1", "final_answer", '{"city": "Ro'), reason="length")
    assert (final().reply(cut).text, final().reply(cut).finish_reason) == ('{"city": "Ro', "length")


def test_arguments_are_streamed_as_text() -> None:
    chunks = [
        ModelChunk(tool_call_delta=ToolCallDelta(0, "1", "look")),
        ModelChunk(tool_call_delta=ToolCallDelta(1, "2", "final_answer")),
        ModelChunk(tool_call_delta=ToolCallDelta(1, arguments_delta='{"city": ')),
        ModelChunk(thinking_delta="hm"),
        ModelChunk(tool_call_delta=ToolCallDelta(1, arguments_delta='"Rome"}')),
        ModelChunk(tool_call_delta=ToolCallDelta(2, "3", "final_answer", '{"city": "Oslo"}')),
    ]
    answer = final(LOOK)
    shown = [answer.chunk(chunk) for chunk in chunks]
    assert shown[0] == chunks[0]
    assert [chunk.text_delta for chunk in shown[1:]] == ["", '{"city": ', "", '"Rome"}', ""]
    assert all(chunk.tool_call_delta is None for chunk in shown[1:])
    assert shown[3].thinking_delta == "hm"
