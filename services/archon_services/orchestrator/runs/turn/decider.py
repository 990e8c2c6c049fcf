"""Decides the inputs of one run in a turn of the scheduler, and places its tasks that are ready."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from archon_mesh.core.people import CALLS
from archon_mesh.engine import Assign, Effect, Place, RunState, apply, effects_of, is_local, open_effects, place_of
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.step_placement import hedges_of
from archon_mesh.engine.types import Failure, quantize
from archon_services.orchestrator.dispatch.decision import decision_of
from archon_services.orchestrator.dispatch.step import input_failure
from archon_services.orchestrator.ports import Delivery, Slot, Transport
from archon_services.orchestrator.runs.clock.timer import RunTimer
from archon_services.orchestrator.runs.turn.candidates import Candidates
from archon_services.orchestrator.runs.turn.decision import Decision
from archon_services.orchestrator.runs.turn.message_rules import with_message_rules
from archon_services.orchestrator.runs.turn.placement import Placement
from archon_services.orchestrator.runs.turn.plan_reply import with_plan
from archon_services.orchestrator.runs.turn.result_check import with_checked_result
from archon_services.orchestrator.runs.turn.session_history import SessionHistory
from archon_services.orchestrator.runs.turn.superseded import without_superseded

_REQUESTS: Final = (inp.DelegateIn, inp.SendIn, inp.CancelDelegationIn, inp.BudgetRequestIn, inp.WorkingIn)
"""Inputs whose sender waits for a reply, or is still at work."""


class Decider:
    """Changes the run's state by its decisions; the driver has them stored, or loads the state again."""

    __slots__ = ("_candidates", "_foreign", "_history", "_placement", "_timer", "_transport")

    def __init__(
        self,
        transport: Transport,
        placement: Placement,
        history: SessionHistory,
        timer: RunTimer,
        foreign: Callable[[str, str], None],
    ) -> None:
        """`foreign` is called with task and instance, if an instance sends input about another one's attempt."""
        self._transport = transport
        self._placement = placement
        self._history = history
        self._timer = timer
        self._foreign = foreign
        self._candidates = Candidates()

    def look_at_all(self) -> None:
        """Makes every task a candidate: any may be ready."""
        self._candidates.reset()

    def decide(self, run: RunState, decision: Decision) -> None:
        """Decides the batch, and the dispatches of the tasks that are ready: all of it is one step."""
        self._decide_inputs(run, decision)
        self._place(run, decision)

    def release(self, decision: Decision) -> None:
        """Gives back the instances that were reserved for a step."""
        for instance_id in decision.placed.values():
            self._transport.release(instance_id)
        decision.placed.clear()

    def release_unassigned(self, decision: Decision, executed: Iterable[Effect]) -> None:
        """Gives back the instances of attempts that the step dispatched and a later event of the step stopped: they are
        not assigned."""
        if decision.placed:
            assigned = {(effect.task_id, effect.attempt) for effect in executed if isinstance(effect, Assign)}
            for key, instance_id in decision.placed.items():
                if key not in assigned:
                    self._transport.release(instance_id)

    def _decide_inputs(self, run: RunState, decision: Decision) -> None:
        inputs = [delivery.given for delivery in decision.batch]
        if len(inputs) > 1:
            inputs = without_superseded(inputs)
        if self._history.outdated:
            inputs = [self._history.marked(given) for given in inputs]
        if self._timer.is_due(decision.now):
            self._candidates.reset()  # the backoff of any task may be over
            if self._timer.ticks and not (inputs and isinstance(inputs[-1], inp.Tick)):
                inputs.append(inp.Tick())
        for number, given in enumerate(inputs):
            source = decision.batch[number].source if number < len(decision.batch) else ""
            if source and not self._may_send(run, source, given):
                decision.discarded[number] = "ABORTED"
                continue
            if type(given) is inp.SendIn:
                given = with_message_rules(run, given, self._transport.message_types)
            if run.plan is not None:
                given = with_checked_result(run, with_plan(run, given))
            decision.inputs.append(given)
            events = self._apply(run, decide(run, given, decision.now), decision)
            for event in events:
                if type(event) is ev.Discarded:
                    decision.discarded[number] = event.reason
            if events and number < len(decision.batch) and (entry := decision.batch[number].audit) is not None:
                decision.audit.append(entry)
            if isinstance(given, _REQUESTS) and is_over(run, given.task_id, given.attempt):
                decision.discarded[number] = "ABORTED"  # there will be no reply: the sender is to stop

    def _may_send(self, run: RunState, instance_id: str, given: Any) -> bool:
        """Whether the attempt of an input was dispatched to the instance. Input about an earlier attempt without a
        holder is late, not foreign: it would be discarded in any case."""
        task = run.tasks.get(given.task_id)
        if task is not None and task.instance_id == instance_id and task.attempt == given.attempt:
            return True
        holder = run.holder(given.task_id, given.attempt)
        if holder == instance_id:
            return True
        if holder or not is_over(run, given.task_id, given.attempt):
            self._foreign(given.task_id, instance_id)
        return False

    def _apply(self, run: RunState, events: Sequence[ev.Event], decision: Decision) -> Sequence[ev.Event]:
        if decision.before is None and events and not (decision.executed and is_local(run, events)):
            decision.before = open_effects(run) if decision.executed else set()
            decision.early = effects_of(run, decision.events)
            self._candidates.reset()
        for event in events:
            apply(run, event, decision.now)
            self._candidates.note(run, event)
        decision.events += events
        return events

    def _place(self, run: RunState, decision: Decision) -> None:
        """Finds instances for the tasks that are ready, within the same step: one step holds a result and the
        dispatches that it makes possible."""
        placement = self._placement
        candidates = self._candidates.take(run, placement.woken)
        while candidates:
            for task in candidates:
                if not run.ready(task):
                    continue
                place = place_of(run, task)
                if place.not_before > decision.now:
                    self._timer.advance(place.not_before)
                elif (given := decision_of(run, task, self._weight_of)) is not None:
                    self._decide_step(run, given, decision)
                elif task.step_id and (failure := input_failure(run, task)) is not None:
                    self._fail_input(run, place, failure, decision)
                elif self._history.waits(run, place):
                    self._candidates.keep(task.task_id)
                elif (slot := placement.find(place)) is not None:
                    self._dispatch(run, place, slot, decision)
            # A task that is not dispatched, but decided, or failed without input or budget, may make others ready.
            candidates = self._candidates.take(run, ()) if decision.made_ready else []
            decision.made_ready = False
        placement.pass_on()

    def _weight_of(self, role: str, instance_id: str) -> float:
        return self._transport.record_weight(role, instance_id)

    def _decide_step(self, run: RunState, given: inp.DecisionIn, decision: Decision) -> None:
        if self._apply(run, decide(run, given, decision.now), decision):
            decision.inputs.append(given)
            decision.made_ready = True

    def _fail_input(self, run: RunState, place: Place, failure: Failure, decision: Decision) -> None:
        given = inp.InputMissing(place.task_id, place.attempt, failure)
        if self._apply(run, decide(run, given, decision.now), decision):
            decision.inputs.append(given)
            decision.made_ready = True

    def _dispatch(self, run: RunState, place: Place, slot: Slot, decision: Decision) -> None:
        key = place.task_id, place.attempt
        decision.placed[key] = slot.instance_id
        expected = self._expected_seconds(run, place)
        ignores = bool(run.breakpoints) and self._ignores_breakpoints(run, slot)
        version = self._history.version(place)
        given = inp.SlotFound(place.task_id, slot.instance_id, version, slot.choice, expected, ignores)
        events = self._apply(run, decide(run, given, decision.now), decision)
        if not events or type(events[0]) is not ev.Dispatched:
            self._transport.release(decision.placed.pop(key))
            decision.made_ready |= bool(events)
        elif expected:
            decision.made_ready = True  # the copies beside it may start at another time now
        if events:
            decision.inputs.append(given)

    def _ignores_breakpoints(self, run: RunState, slot: Slot) -> bool:
        """Whether the run has breakpoints at calls, and the runtime of the instance cannot hold there."""
        at_calls = any(each.point in CALLS for each in run.breakpoints)
        return at_calls and not self._transport.holds_breakpoints(slot.instance_id)

    def _expected_seconds(self, run: RunState, place: Place) -> float:
        """The measured time of the role, after which copies beside a step start; 0 if there is none."""
        if run.plan is None or place.attempt != 1 or not hedges_of(run, run.tasks[place.task_id]):
            return 0.0
        return quantize(self._transport.expected_seconds(place.want.role))


def has_newer(run: RunState, batch: Iterable[Delivery]) -> bool:
    """Returns whether an input is about an attempt that the state does not know: another owner may have dispatched it,
    and an attempt is not to be discarded by one that does not own the run any more."""
    for delivery in batch:
        if delivery.source:
            given: Any = delivery.given
            task = run.tasks.get(given.task_id)
            if task is None or given.attempt > task.attempt:
                return True
    return False


def is_over(run: RunState, task_id: str, attempt: int) -> bool:
    """Returns whether an attempt has ended; False for an unknown one: another owner may have dispatched it."""
    task = run.tasks.get(task_id)
    return task is not None and (attempt < task.attempt or (attempt == task.attempt and not task.live))
