"""How a reply is split into sections."""

from __future__ import annotations

import pytest

from archon_mesh.llm.text_format.sections import Kind, marker_of, sections, without_end_tokens, without_thinking


def kinds(text: str) -> list[Kind]:
    return [section.kind for section in sections(text)]


@pytest.mark.parametrize(
    ("line", "kind", "rest"),
    [
        ("Thought: x", Kind.THOUGHT, " x"),
        ("Question: x", Kind.THOUGHT, " x"),
        ("**Action:** x", Kind.ACTION, " x"),
        ("1. Action: x", Kind.ACTION, " x"),
        ("### Action 2: x", Kind.ACTION, " x"),
        ("Tool: x", Kind.ACTION, " x"),
        ("action_input: x", Kind.INPUT, " x"),
        ("Action Input: x", Kind.INPUT, " x"),
        ("Tool Input: x", Kind.INPUT, " x"),
        ("Input: x", Kind.INPUT, " x"),
        ("Arguments: x", Kind.INPUT, " x"),
        ("Parameters: x", Kind.INPUT, " x"),
        ("args: x", Kind.INPUT, " x"),
        ("FINAL ANSWER: x", Kind.ANSWER, " x"),
        ("final_answer: x", Kind.ANSWER, " x"),
        ("assistant: Final Answer: x", Kind.ANSWER, " x"),
        ("> Observation: x", Kind.OBSERVATION, " x"),
        ("<tool_call>x", Kind.TAG, "<tool_call>x"),
        ("  [TOOL_CALLS]x", Kind.TAG, "  [TOOL_CALLS]x"),
    ],
)
def test_markers(line: str, kind: Kind, rest: str) -> None:
    marker = marker_of(line)
    assert marker is not None
    assert (marker[0], marker[2]) == (kind, rest)


@pytest.mark.parametrize("line", ["", "My action: x", "Actions: x", "Action x", "<b>x", "thoughtful: x"])
def test_lines_without_a_marker(line: str) -> None:
    assert marker_of(line) is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>hm</think>Action: x", "Action: x"),
        ("  <thinking>hm</thinking>x", "x"),
        ("<reasoning>hm</reasoning>x", "x"),
        ("<think>hm", ""),
        ("hm\n</think>\nx", "x"),
        ("hm</think>x", "hm</think>x"),
        ("a <think>b</think>\nc", "a <think>b</think>\nc"),
        ("x", "x"),
    ],
)
def test_thinking_is_removed(text: str, rest: str) -> None:
    assert without_thinking(text) == rest


def test_end_tokens_end_the_line() -> None:
    assert without_end_tokens("x</s> <|im_end|>\n") == "x\n"
    assert without_end_tokens("x") == "x"
    assert without_end_tokens("x PAUSE") == "x \n"
    assert without_end_tokens("x" + "</s>" * 6) == "x</s>\n", "at most five"


def test_sections_end_at_the_next_marker() -> None:
    found = sections("Hello.\nThought: hm\nmore\n\nAction: x\nFinal Answer: y")
    assert [(each.kind, each.text, each.finished) for each in found] == [
        (Kind.PROSE, "Hello.", True),
        (Kind.THOUGHT, " hm\nmore\n", True),
        (Kind.ACTION, " x", True),
        (Kind.ANSWER, " y", False),
    ]


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_block_behind_prose_is_opaque(fence: str) -> None:
    assert kinds(f"So:\n{fence}\nAction: x\n{fence}\nAction: y") == [Kind.PROSE, Kind.ACTION]
    assert kinds(f"{fence}\nAction: x\n{fence}\n") == [Kind.PROSE, Kind.ACTION, Kind.PROSE]
    assert kinds(f"Thought: t\n{fence}\nAction: x\n{fence}") == [Kind.PROSE, Kind.THOUGHT, Kind.ACTION, Kind.PROSE]
    assert kinds(f"Action: {fence}json\nThought: x\n{fence}\nThought: y") == [Kind.PROSE, Kind.ACTION, Kind.THOUGHT]


def test_the_other_fence_is_a_part_of_the_block() -> None:
    assert kinds("So:\n```\n~~~\nAction: x\n```\nAction: y") == [Kind.PROSE, Kind.ACTION]


def test_a_section_in_a_block_is_finished_by_its_end() -> None:
    _, action, _ = sections("```\nAction: x\n```\n")
    assert (action.fenced, action.finished) == (True, True)


@pytest.mark.parametrize("before", ["For example:", "Use this format:", "The syntax is, e.g.:", "It looks like this:"])
def test_a_call_that_a_line_introduces_is_an_example(before: str) -> None:
    assert [each.example for each in sections(f"{before}\nAction: x")] == [False, True]


@pytest.mark.parametrize("before", ["For example", "I call it:", "Thought: for example:"])
def test_other_calls_are_no_examples(before: str) -> None:
    assert not any(each.example for each in sections(f"{before}\nAction: x"))


def test_a_thought_may_hold_its_action() -> None:
    found = sections('Thought: I add. Action: {"tool": "add"}')
    assert [(each.kind, each.text) for each in found[1:]] == [
        (Kind.THOUGHT, " I add."),
        (Kind.ACTION, '{"tool": "add"}'),
    ]
    found = sections("Thought: I know. Final Answer: 45")
    assert [(each.kind, each.text) for each in found[1:]] == [(Kind.THOUGHT, " I know."), (Kind.ANSWER, "45")]


def test_keys_of_json_are_no_markers() -> None:
    assert kinds('Action: {\ntool: "add"\narguments: {}\n}') == [Kind.PROSE, Kind.ACTION]
    assert kinds("Action: add\nArguments: {}") == [Kind.PROSE, Kind.ACTION, Kind.INPUT]
    assert kinds("Action: \nInput: x") == [Kind.PROSE, Kind.ACTION]
    assert kinds("Tool: add\nInput: x") == [Kind.PROSE, Kind.ACTION, Kind.INPUT]
    assert kinds("Thought: t\nInput: x") == [Kind.PROSE, Kind.THOUGHT]
    assert kinds("Final Answer: t\nTool: x") == [Kind.PROSE, Kind.ANSWER]


def test_a_tag_belongs_to_what_it_stands_in() -> None:
    assert kinds("Final Answer: x\n<tool_call>y") == [Kind.PROSE, Kind.ANSWER]
    assert kinds("<tool_call>x\n<tool_call>y") == [Kind.PROSE, Kind.TAG]
    assert kinds("<tool_call>x</tool_call>\n<tool_call>y") == [Kind.PROSE, Kind.TAG, Kind.TAG]
    assert kinds('<invoke name="a">x</invoke>\n<invoke name="b">') == [Kind.PROSE, Kind.TAG, Kind.TAG]
