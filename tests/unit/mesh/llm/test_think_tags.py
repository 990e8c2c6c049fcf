"""Thinking in tags is separated from the answer, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.llm.think_tags import ThinkTags, without_thinking


def split(*pieces: str) -> tuple[str, str]:
    tags = ThinkTags()
    parts = [*map(tags.feed, pieces), tags.end()]
    return "".join(part.thinking for part in parts), "".join(part.answer for part in parts)


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("Blue.", "", "Blue."),
        ("<think>\nlet me see</think>\n\nBlue.", "\nlet me see", "Blue."),
        ("\n<thinking>hm</thinking>Blue", "hm", "Blue"),
        ("[THINK]hm[/THINK]Blue", "hm", "Blue"),
        ("<think></think>Blue", "", "Blue"),
        ("<think>no end", "no end", ""),
        ("<think>a < b </thin", "a < b </thin", ""),
        ("<b>bold</b> <think>x</think>", "", "<b>bold</b> <think>x</think>"),
        ("<thin", "", "<thin"),
        ("  spaces stay", "", "  spaces stay"),
        ("", "", ""),
    ],
)
@given(data=st.data())
def test_a_text_is_split_in_the_same_way_in_all_pieces(
    text: str, thinking: str, answer: str, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split(*pieces) == (thinking, answer)


def test_thinking_without_its_opening_tag_is_taken_away() -> None:
    assert without_thinking("let me see\n</think>\n\nBlue.") == "Blue."
    assert without_thinking("Blue.") == "Blue."
    assert without_thinking("Write <think> and </think> around it.") == "Write <think> and </think> around it."
    assert without_thinking("Close it with </think> at the end.") == "Close it with </think> at the end."
