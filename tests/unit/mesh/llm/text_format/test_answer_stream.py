"""What of a reply is shown while it comes."""

from __future__ import annotations

import pytest

from archon_mesh.llm.text_format.answer_stream import AnswerStream


def pieces(*deltas: str) -> list[str]:
    stream = AnswerStream()
    return [stream.feed(delta) for delta in deltas]


@pytest.mark.parametrize(
    ("deltas", "shown"),
    [
        (("Final Answer: It", " is 45."), ["It", " is 45."]),
        (("Thought: hm\nFinal Answer: ", "It is", " 45.\n", "And more.\n"), ["", "It is", " 45.", "\nAnd more."]),
        (("Final ", "Answer: 45"), ["", "45"]),
        (("It is 45.\n", "Final Answer: 45"), ["", "45"]),
        (("Final Answer: 45\n", "Thought: hm\n", "More.\n", "Final Answer: 46"), ["45", "", "", ""]),
        (("```\n", "Final Answer: 45\n", "```\n", "Final Answer: 46"), ["", "", "", ""]),
    ],
    ids=["at once", "after a thought", "marker in pieces", "after prose", "over", "block before it"],
)
def test_the_answer_is_shown_as_it_comes(deltas: tuple[str, ...], shown: list[str]) -> None:
    assert pieces(*deltas) == shown


@pytest.mark.parametrize(
    "deltas",
    [
        ("Thought: I know it.\n", "It is 45.\n"),
        ('Action: {"tool": "multiply"}\n', "text"),
        ("```\nFinal Answer: an example\n", "more"),
        ("~~~\nFinal Answer: an example\n", "more"),
        ("  ```\nFinal Answer: an example\n", "more"),
        ("<think>hm</think>\nFinal Answer: 1\n", "more"),
    ],
    ids=["no answer", "a call", "in a block", "in a tilde block", "in an indented block", "behind thinking"],
)
def test_nothing_else_is_shown(deltas: tuple[str, ...]) -> None:
    assert "".join(pieces(*deltas)) == ""


@pytest.mark.parametrize("marker", ["Thought: x", "Action: {", "Observation: 7", "Final Answer: again"])
def test_the_answer_ends_at_the_next_marker(marker: str) -> None:
    assert "".join(pieces("Final Answer: It is\n45.\n", f"{marker}\n", "Final Answer: no\n")) == "It is\n45."


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_block_in_the_answer_may_hold_markers(fence: str) -> None:
    block = f"{fence}\nAction: stays\n{fence}"
    end = "and this is the end of the answer"
    shown = "".join(pieces("Final Answer: so:\n", f"{block}\n", f"{end}\n", "Thought: not shown\n"))
    assert shown == f"so:\n{block}\n{end}"


def test_a_long_line_of_an_answer_is_shown_before_its_end() -> None:
    words = "word " * 20
    assert pieces("Final Answer: a\n", words) == ["a", "\n" + words.rstrip()]


def test_what_may_begin_a_token_is_held_back() -> None:
    stream = AnswerStream()
    assert stream.feed("Final Answer: 45 <") == "45"
    assert stream.feed("|im_e") == ""
    assert stream.feed("nd of the text is long") == " <|im_end of the text is long"
    assert stream.emitted == "45 <|im_end of the text is long"
