"""The events of a run in which `lead` delegates, as the orchestrator tells them."""

from __future__ import annotations

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.run_view import RunView

SUBMITTED, WORKING, COMPLETED = (
    common_pb2.TASK_STATE_SUBMITTED,
    common_pb2.TASK_STATE_WORKING,
    common_pb2.TASK_STATE_COMPLETED,
)


def event(task: str = "", attempt: int = 1, at: int = 100, **what: object) -> run_pb2.RunEvent:
    made = run_pb2.RunEvent(run_id="r", seq=1, **what)  # type: ignore[arg-type]
    made.time.seconds = at
    if task:
        made.task.task_id, made.task.attempt = task, attempt
    return made


def made(task: str, role: str, parent: str = "") -> run_pb2.RunEvent:
    state = run_pb2.TaskStateChanged(role=role, state=SUBMITTED, parent_task_id=parent)
    return event(task, 0, task_state=state)


def dispatched(task: str, role: str, attempt: int = 1, *given: str) -> run_pb2.RunEvent:
    refs = [common_pb2.MemoryRef(role=one) for one in given]
    what = run_pb2.Dispatched(role=role, instance_id=f"{role}-x", given=refs)
    return event(task, attempt, 101, dispatched=what)


def delegated(parent: str, role: str, child: str, delegation: str = "d1", attempt: int = 1) -> run_pb2.RunEvent:
    asked = [common_pb2.Part(text=f"Do what a\n{role} does.")]
    what = run_pb2.Delegated(delegation_id=delegation, child_task_id=child, role=role, input=asked)
    return event(parent, attempt, 102, delegated=what)


def refused(parent: str, role: str, why: str) -> run_pb2.RunEvent:
    what = run_pb2.Delegated(delegation_id="no", role=role)
    what.failure.message = why
    return event(parent, delegated=what)


def result(task: str, role: str, state: common_pb2.TaskState.ValueType = COMPLETED) -> run_pb2.RunEvent:
    return event(task, 1, 103, result=run_pb2.ResultReceived(role=role, state=state))


def opening() -> list[run_pb2.RunEvent]:
    """An agent run whose `lead` is under way. The edge among the roles holds nothing back."""
    edges = [common_pb2.Edge(upstream="cook", downstream="waiter")]
    said = run_pb2.Submitted(edges=edges, strategy=run_pb2.STRATEGY_AGENT)
    return [event(submitted=said), made("t1", "lead"), dispatched("t1", "lead")]


def view_of(*events: run_pb2.RunEvent) -> RunView:
    view = RunView()
    for one in [*opening(), *events]:
        view.apply(one)
    return view
