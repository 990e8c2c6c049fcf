"""What a model reads of a tool call's result."""

from __future__ import annotations

from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.tool_messages import MAX_ERROR_CHARS, has_failed, tool_answer, tool_failure

CALL = ToolCall("c1", "look", "{}")


def test_an_answer_is_the_text_of_the_tool() -> None:
    assert tool_answer(CALL, "a tree") == ChatMessage("tool", "a tree", tool_call_id="c1")
    assert tool_answer(CALL, "") == ChatMessage("tool", "(an answer without text)", tool_call_id="c1")


def test_a_failure_is_one_line() -> None:
    failed = tool_failure(CALL, "INTERNAL", "TOOL_FAILED", " it\n  broke\t twice ")
    assert failed == ChatMessage("tool", "Error INTERNAL (TOOL_FAILED): it broke twice", tool_call_id="c1")
    assert has_failed(failed)


def test_a_long_failure_is_cut() -> None:
    whole, cut = "x" * MAX_ERROR_CHARS, "x" * (MAX_ERROR_CHARS - 1) + " y"
    assert tool_failure(CALL, "A", "B", whole).content == f"Error A (B): {whole}"
    assert tool_failure(CALL, "A", "B", whole + "z").content == f"Error A (B): {whole} ..."
    assert tool_failure(CALL, "A", "B", cut).content == f"Error A (B): {'x' * (MAX_ERROR_CHARS - 1)} ..."


def test_a_text_about_errors_is_no_failure() -> None:
    for content in ("Error: none", "An Error INTERNAL (TOOL_FAILED): x", "Error internal (X): x", ""):
        assert not has_failed(ChatMessage("tool", content))
