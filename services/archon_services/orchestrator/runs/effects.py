"""Carries out the effects of one run towards its agents: what is open now and wasn't before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from archon.api.common.v1 import common_pb2
from archon_mesh.core.run import Adopt, Answer, Assign, CancelAttempt, Effect, Grant, RunState
from archon_services.orchestrator.dispatch.assign_task import assign_task
from archon_services.orchestrator.dispatch.replies import attempt_status, budget_grant, delegate_result
from archon_services.orchestrator.ports import Transport


def execute_effects(
    effects: Iterable[Effect],
    run: RunState,
    run_id: str,
    now: float,
    transport: Transport,
    history: Callable[[str], Sequence[bytes]] = lambda task_id: (),
) -> None:
    """In a fixed order. `now` is in wall seconds, `history` what a task is told of its conversation, turn by turn."""
    for effect in in_order(effects):
        match effect:
            case Assign():
                task = run.tasks[effect.task_id]
                transport.assign(
                    effect.instance_id,
                    _ref(effect, run_id),
                    task.role,
                    assign_task(run, task, now, history(task.task_id)),
                )
            case Adopt():
                task = run.tasks[effect.task_id]
                transport.adopt(effect.instance_id, _ref(effect, run_id), task.role, attempt_status(run, task, now))
            case CancelAttempt():
                transport.cancel(effect.instance_id, _ref(effect, run_id), _why(effect, run))
            case Answer():
                told = delegate_result(run, run.tasks[effect.task_id], effect.delegation_id)
                transport.tell(effect.instance_id, _ref(effect, run_id), told)
            case Grant():
                told = budget_grant(run.tasks[effect.task_id], effect.request_id)
                transport.tell(effect.instance_id, _ref(effect, run_id), told)
            case _:
                pass


def _why(effect: CancelAttempt, run: RunState) -> str:
    if run.current(effect.task_id, effect.attempt) is None:
        return "superseded"
    failure = run.tasks[effect.task_id].failure or run.failure
    return failure.message if failure else "the run ends"


def in_order(effects: Iterable[Effect]) -> list[Effect]:
    """By task: sets have no order, and the same course must be the same every time. What an attempt is told comes after
    it was assigned or adopted."""
    found = list(effects)
    return sorted(found, key=_place) if len(found) > 1 else found


def _place(effect: Effect) -> tuple[str, int, str]:
    told = getattr(effect, "delegation_id", "") or getattr(effect, "request_id", "")
    return getattr(effect, "task_id", ""), getattr(effect, "attempt", 0), told


def _ref(effect: Assign | Adopt | CancelAttempt | Answer | Grant, run_id: str) -> common_pb2.TaskRef:
    return common_pb2.TaskRef(task_id=effect.task_id, run_id=run_id, attempt=effect.attempt, epoch=effect.epoch)
