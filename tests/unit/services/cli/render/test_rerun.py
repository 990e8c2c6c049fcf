"""What commands say about running a run again."""

from __future__ import annotations

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.rerun import rerun_hint, rerun_note
from archon_services.cli.render.run_summary import print_summary

COMPLETED, FAILED = common_pb2.TASK_STATE_COMPLETED, common_pb2.TASK_STATE_FAILED
CANCELED, WORKING = common_pb2.TASK_STATE_CANCELED, common_pb2.TASK_STATE_WORKING


def fork(*attempts: int) -> run_pb2.Run:
    tasks = [
        run_pb2.Task(task_id=f"f.{role}", role=role, state=COMPLETED, attempt=attempt)
        for role, attempt in zip("abc", attempts, strict=False)
    ]
    return run_pb2.Run(run_id="f", state=COMPLETED, tasks=tasks)


@pytest.mark.parametrize(
    ("state", "new", "text"),
    [
        (FAILED, fork(0, 0, 1), "Run f continues run r and reuses a, b."),
        (CANCELED, fork(1), "Run f starts over: no task of run r had completed."),
        (
            COMPLETED,
            fork(0),
            "Run f reuses everything of run r, which has completed. `archon run` executes a goal anew.",
        ),
    ],
)
def test_a_note_names_the_tasks_that_are_reused(
    state: common_pb2.TaskState.ValueType, new: run_pb2.Run, text: str
) -> None:
    assert rerun_note(run_pb2.Run(run_id="r", state=state), new) == text


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (FAILED, "`archon rerun r --orchestrator h:1` continues from the failed task."),
        (CANCELED, "`archon rerun r --orchestrator h:1` continues with the tasks that had not completed."),
        (COMPLETED, ""),
        (WORKING, ""),
    ],
)
def test_only_a_run_without_success_has_a_hint(state: common_pb2.TaskState.ValueType, text: str) -> None:
    assert rerun_hint(run_pb2.Run(run_id="r", state=state), " --orchestrator h:1") == text


def test_a_hint_has_the_short_form_of_the_id() -> None:
    assert rerun_hint(run_pb2.Run(run_id="a" * 32, state=FAILED)).startswith(f"`archon rerun {'a' * 12}` ")


def test_a_summary_marks_reused_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(fork(0, 2), {})
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1] in ("a", "b")]
    assert [row[:2] for row in rows] == [["a", "reused"], ["b", "completed"]]
