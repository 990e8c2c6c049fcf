"""Executes the effects of a run on its agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon.frames import SUPERSEDED
from archon_mesh.engine import (
    Adopt,
    Answer,
    Assign,
    CancelAttempt,
    ConfirmMessage,
    Deliver,
    Effect,
    GiveInput,
    Grant,
    RunState,
    UpdateMemory,
)
from archon_services.orchestrator.convert.message import message_to_proto
from archon_services.orchestrator.dispatch.assign_task import assign_task
from archon_services.orchestrator.dispatch.context import update_memory
from archon_services.orchestrator.dispatch.replies import (
    attempt_status,
    budget_grant,
    delegate_result,
    given_input,
    message_result,
)
from archon_services.orchestrator.ports import Transport

AttemptEffect = Assign | Adopt | CancelAttempt | Answer | UpdateMemory | GiveInput | Deliver | ConfirmMessage | Grant
_OF_ATTEMPTS: Final = (
    Assign,
    Adopt,
    CancelAttempt,
    Answer,
    UpdateMemory,
    GiveInput,
    Deliver,
    ConfirmMessage,
    Grant,
)


class EffectExecutor:
    """Executes effects through a transport. `history` gives the turns of its conversation that a task is sent.
    `released`: the owner before left the run on purpose."""

    __slots__ = ("_history", "_released", "_run_id", "_transport")

    def __init__(
        self, run_id: str, transport: Transport, history: Callable[[str], Sequence[bytes]], *, released: bool = False
    ) -> None:
        self._released = released
        self._run_id = run_id
        self._transport = transport
        self._history = history

    def execute(self, effects: Iterable[Effect], run: RunState, now: float) -> None:
        """Executes effects in a fixed order; `now` is in wall seconds. Places and timers are not executed here."""
        transport = self._transport
        for effect in in_order(effects):
            match effect:
                case Assign():
                    task = run.tasks[effect.task_id]
                    assignment = assign_task(run, task, now, self._history(task.task_id))
                    transport.assign(effect.instance_id, self._ref(effect), task.role, assignment)
                case Adopt():
                    task = run.tasks[effect.task_id]
                    status = attempt_status(run, task, now, released=self._released)
                    transport.adopt(effect.instance_id, self._ref(effect), task.role, status)
                case CancelAttempt():
                    transport.cancel(effect.instance_id, self._ref(effect), _cancel_reason(effect, run))
                case Answer():
                    result = delegate_result(run, run.tasks[effect.task_id], effect.delegation_id)
                    transport.tell(effect.instance_id, self._ref(effect), result)
                case UpdateMemory():
                    transport.tell(effect.instance_id, self._ref(effect), update_memory(run, effect.ref))
                case GiveInput():
                    given = given_input(run.tasks[effect.task_id], effect.input_id)
                    transport.tell(effect.instance_id, self._ref(effect), given)
                case Deliver():
                    sent = run.messages[effect.seq]
                    if not sent.is_expired(now):
                        frame = session_pb2.OrchestratorFrame(message=message_to_proto(sent))
                        transport.tell(effect.instance_id, self._ref(effect), frame)
                case ConfirmMessage():
                    reply = message_result(run.tasks[effect.task_id], effect.seq)
                    transport.tell(effect.instance_id, self._ref(effect), reply)
                case Grant():
                    grant = budget_grant(run.tasks[effect.task_id], effect.request_id)
                    transport.tell(effect.instance_id, self._ref(effect), grant)

    def _ref(self, effect: AttemptEffect) -> common_pb2.TaskRef:
        return common_pb2.TaskRef(
            task_id=effect.task_id, run_id=self._run_id, attempt=effect.attempt, epoch=effect.epoch
        )


def in_order(effects: Iterable[Effect]) -> list[AttemptEffect]:
    """Returns the effects on attempts, sorted by task and attempt: sets have no order, and the simulation must repeat
    exactly. Frames about an attempt come after its assignment or adoption."""
    of_attempts = [effect for effect in effects if isinstance(effect, _OF_ATTEMPTS)]
    if len(of_attempts) > 1:
        of_attempts.sort(key=_order)
    return of_attempts


def _order(effect: AttemptEffect) -> tuple[str, int, str, int]:
    reply = getattr(effect, "delegation_id", "") or getattr(effect, "request_id", "") or getattr(effect, "input_id", "")
    seq = effect.seq if isinstance(effect, (Deliver, ConfirmMessage)) else 0
    return effect.task_id, effect.attempt, reply, effect.ref.seq if isinstance(effect, UpdateMemory) else seq


def _cancel_reason(effect: CancelAttempt, run: RunState) -> str:
    if run.current(effect.task_id, effect.attempt) is None:
        return SUPERSEDED
    failure = run.tasks[effect.task_id].failure or run.failure
    return failure.message if failure else "the run ends"
