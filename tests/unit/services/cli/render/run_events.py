"""Events of a run in which `lead` delegates, and a line screen that prints them."""

from __future__ import annotations

from itertools import count

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView
from archon.types import RunEvent
from archon_services.cli.render.run_screen import LineScreen

SUBMITTED, WORKING, COMPLETED = (
    common_pb2.TASK_STATE_SUBMITTED,
    common_pb2.TASK_STATE_WORKING,
    common_pb2.TASK_STATE_COMPLETED,
)


_seqs = count(1_000)


def numbered(*events: run_pb2.RunEvent, first: int = 0) -> list[run_pb2.RunEvent]:
    """Numbers the events of a run in this order: from `first` on if it is given, else above all earlier ones."""
    for seq, event in zip(count(first) if first else _seqs, events, strict=False):
        event.seq = seq
    return [*events]


def event(task: str = "", attempt: int = 1, at: int = 100, **payload: object) -> run_pb2.RunEvent:
    event = run_pb2.RunEvent(run_id="r", seq=next(_seqs), **payload)  # type: ignore[arg-type]
    event.time.seconds = at
    if task:
        event.task.task_id, event.task.attempt = task, attempt
    return event


def created(task: str, role: str, parent: str = "") -> run_pb2.RunEvent:
    state = run_pb2.TaskStateChanged(role=role, state=SUBMITTED, parent_task_id=parent)
    return event(task, 0, task_state=state)


def dispatched(task: str, role: str, attempt: int = 1, *context: str) -> run_pb2.RunEvent:
    refs = [common_pb2.MemoryRef(role=upstream) for upstream in context]
    payload = run_pb2.Dispatched(role=role, instance_id=f"{role}-x", given=refs)
    return event(task, attempt, 101, dispatched=payload)


def delegated(parent: str, role: str, child: str, delegation: str = "d1", attempt: int = 1) -> run_pb2.RunEvent:
    parts = [common_pb2.Part(text=f"Do what a\n{role} does.")]
    payload = run_pb2.Delegated(delegation_id=delegation, child_task_id=child, role=role, input=parts)
    return event(parent, attempt, 102, delegated=payload)


def rejected(parent: str, role: str, reason: str) -> run_pb2.RunEvent:
    payload = run_pb2.Delegated(delegation_id="no", role=role)
    payload.failure.message = reason
    return event(parent, delegated=payload)


def result(task: str, role: str, state: common_pb2.TaskState.ValueType = COMPLETED) -> run_pb2.RunEvent:
    return event(task, 1, 103, result=run_pb2.ResultReceived(role=role, state=state))


def opening() -> list[run_pb2.RunEvent]:
    """An agent run whose `lead` is working. Tasks of an agent run do not wait for edges."""
    edges = [common_pb2.Edge(upstream="cook", downstream="waiter")]
    submitted = run_pb2.Submitted(edges=edges, strategy=run_pb2.STRATEGY_AGENT)
    return numbered(event(submitted=submitted), created("t1", "lead"), dispatched("t1", "lead"), first=1)


def view_of(*events: run_pb2.RunEvent) -> RunView:
    view = RunView()
    for applied in [*opening(), *numbered(*events)]:
        view.apply(RunEvent(applied))
    return view


def lines_of(capsys: pytest.CaptureFixture[str], *events: run_pb2.RunEvent, flag: str = "") -> list[str]:
    """Returns the lines that a line screen prints for these events after the opening, without times."""
    screen = LineScreen(flag=flag)
    for shown in opening():
        screen.event(shown)
    capsys.readouterr()
    for shown in numbered(*events):
        screen.event(shown)
    lines = capsys.readouterr().err.splitlines()
    return [line.partition(" s  ")[2] if " s  " in line else line.strip() for line in lines]
