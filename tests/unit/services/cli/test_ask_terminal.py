"""Questions to the person at the terminal."""

from __future__ import annotations

import io
import sys

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.submission import Goal
from archon_services.cli.ask_terminal import ask_terminal
from archon_services.cli.render.questions import PendingQuestion


@pytest.mark.parametrize(("may_skip", "sent"), [(True, []), (False, ["blue"])])
def test_an_empty_line_skips_a_question_only_in_the_inbox(
    monkeypatch: pytest.MonkeyPatch, may_skip: bool, sent: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\nblue\n")))
    answers: list[Goal] = []

    def send(answer: Goal, decision: str) -> run_pb2.Run:
        answers.append(answer)
        return run_pb2.Run()

    ask_terminal(PendingQuestion("r", "r.1/q1", "writer", "Which colour?", ""), send, may_skip=may_skip)
    assert answers == sent
