"""Journals that were written when tasks were found by their roles: events as JSON, a line each. They fold as they did,
and their runs go on."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import json_format

from archon.api.orchestrator.v1 import run_pb2
from archon.wire import text_of
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.dispatch.assign_task import assign_task
from archon_services.orchestrator.runs.states.load import fold_journal

JOURNALS = Path(__file__).parent / "journals"


def load(name: str) -> RunState:
    lines = (JOURNALS / f"{name}.jsonl").read_text().splitlines()
    return fold_journal([json_format.Parse(line, run_pb2.RunEvent()) for line in lines])


def tasks(run: RunState) -> list[tuple[object, ...]]:
    return [
        (task.role, task.state.name, task.attempt, task.predecessors, [(ref.role, ref.seq) for ref in task.context])
        for task in run.tasks.values()
    ]


def given(run: RunState, task_id: str) -> list[str]:
    return [text_of(item.parts) for item in assign_task(run, run.tasks[task_id], 1_010.0).context]


def test_an_earlier_pipeline_folds_and_goes_on() -> None:
    run = load("pipeline")
    assert tasks(run) == [
        ("a", "COMPLETED", 2, (), []),
        ("b", "COMPLETED", 2, ("r.1",), [("a", 11)]),
        ("c", "WORKING", 1, ("r.1", "r.2"), [("a", 11), ("b", 16)]),
        ("d", "COMPLETED", 1, ("r.2",), [("b", 16)]),
    ]
    assert given(run, "r.3") == ["answer of a", "answer of b"]
    events = decide(run, inp.ResultIn("r.3", 1, TaskState.COMPLETED, None), 1_020.0)
    assert isinstance(events[-1], ev.RunEnded)
    assert events[-1].answer_seqs == (run.last_seq + 1, run.tasks["r.4"].result_seq)


def test_an_earlier_run_with_delegations_folds_and_goes_on() -> None:
    run = load("delegation")
    assert tasks(run) == [
        ("lead", "WORKING", 1, (), []),
        ("x", "COMPLETED", 1, (), []),
        ("x", "COMPLETED", 1, (), []),
        ("y", "WORKING", 1, (), [("x", 11)]),
    ]
    assert run.tasks["r.2"].memory_version == 4
    assert given(run, "r.4") == ["answer of x"]
    assert list(run.live_ids) == ["r.1", "r.4"]
    assert run.root_ids == ["r.1"]
