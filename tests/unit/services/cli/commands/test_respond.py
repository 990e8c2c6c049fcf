"""`archon respond`: which question is answered, and what is printed."""

from __future__ import annotations

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.commands import respond
from archon_services.cli.errors import USAGE, CliError
from tests.unit.services.cli.commands.runs_with_questions import run_with


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (run_with(), "Run r continues."),
        (run_with("r.2/q1"), "Run r still waits for 2/q1 (clerk: sure?)."),
        (run_with("r.1/q1"), "Run r has not processed it yet."),
        (run_with(paused=True), "Run r is paused: `archon resume r --orchestrator h:1` resumes it."),
        (run_with(state=common_pb2.TASK_STATE_FAILED), "Run r has ended: failed."),
    ],
)
def test_outcome_describes_the_run_after_the_answer(run: run_pb2.Run, text: str) -> None:
    assert respond._outcome(run, "r.1/q1", " --orchestrator h:1") == f"Answer accepted. {text}"


def test_question_is_selected_by_full_or_short_id() -> None:
    run = run_with("r.1/q1", "r.2/q1")
    for name in ("r.2/q1", "2/q1"):
        question = respond._select(run, name, "")
        assert question is not None
        assert question.input_id == "r.2/q1"
    assert respond._select(run, "q1", "") is None
    assert (respond._full_id(run, None, "7/q1"), respond._full_id(run, None, "r.7/q1")) == ("r.7/q1", "r.7/q1")
    with pytest.raises(CliError, match="asks 2 questions") as caught:
        respond._select(run, "", "")
    assert (caught.value.code, "2/q1 (clerk: sure?)" in caught.value.hint) == (USAGE, True)


def test_answer_without_question_needs_a_request_id() -> None:
    with pytest.raises(CliError, match="asks no question; its state is working"):
        respond._select(run_with(), "", "")
    assert respond._select(run_with(), "", "request-1") is None
