"""Markdown as text in lists."""

from __future__ import annotations

import time

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.commands.inbox import _row
from archon_services.cli.render.markdown_text import MAX_PARSED, plain_text
from archon_services.cli.render.questions import PendingQuestion


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# Plan **A**\n\nShall I `rm -rf`?", "Plan A\nShall I rm -rf?"),
        ("- one [page](http://x)\n- two\n\n1. a\n2. b", "- one page\n- two\n1. a\n2. b"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b\n1 2"),
        ("```py\nx = *y\n```\nthen", "x = *y\nthen"),
        ("> a quote\n> goes on", "a quote\ngoes on"),
        ("2 * 3 * 4, snake_case_name, 5 < 6", "2 * 3 * 4, snake_case_name, 5 < 6"),
        ("~~old~~ ![a picture](u) a\\*b", "old a picture a*b"),
        ("<b>bold</b> <!-- hidden -->", "<b>bold</b> <!-- hidden -->"),
        ("plain text", "plain text"),
        ("***", "***"),
        ("", ""),
    ],
)
def test_marks_are_left_out_and_text_stays(markdown: str, text: str) -> None:
    assert plain_text(markdown) == text


def test_a_list_of_questions_shows_text_on_one_line() -> None:
    question = run_pb2.Question(run_id="r" * 32, input_id="r.1", role="designer")
    question.prompt.add(text="## Choose\n\n* **red**\n* blue \x1b[31m")
    assert _row(question, time.time())[-1] == "Choose - red - blue [31m"
    pending = PendingQuestion("r", "r.1", "designer", "**Which** `one`?", "")
    assert pending.summary == "1 (designer: Which one?)"


def test_a_long_text_is_read_to_its_limit() -> None:
    deep = "> " * 50_000 + "x"
    assert len(plain_text(deep)) <= MAX_PARSED
    assert len(plain_text("*a* " * 100_000)) <= MAX_PARSED
