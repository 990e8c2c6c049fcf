"""Checks of the journal of an ended run, by the numbers of docs/durability.md ("Validator")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.engine import RunState, apply, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine.codec import decode_inputs
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.decide.fork import REUSED_ATTEMPT
from archon_mesh.engine.inputs import Input
from archon_mesh.engine.types import UNDECIDED, TaskState
from archon_services.orchestrator.convert import event_from_proto, event_time
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.journal.framing import events_in
from archon_services.orchestrator.runs.states.load import fold_journal
from tests.simulation.check import Check, Execution, Violation, must

__all__ = ["Violation", "must", "validate_attempts", "validate_executions", "validate_journal", "validate_run"]

Decided = tuple[int, list[Input], float]
"""Inputs that were decided together: the sequence number before them, the inputs, and the time in wall seconds."""


async def validate_run(journal: MemoryJournal, run_id: str, check: Check) -> RunState:
    """Checks lines 1 to 4, 6 to 11 and 13 on one run of the simulation."""
    book = check.books[run_id]
    stored = [event for step in await journal.steps(run_id, 0, 100_000) for event in events_in(step.data)]
    must("V2", stored == book.events, "the journal differs from the steps that were written")
    must("V2", [e.seq for e in book.protos] == list(range(1, len(book.protos) + 1)), "the sequence has gaps")
    inputs = [(last_seq, *decode_inputs(data)) for last_seq, data in await journal.inputs(run_id)]
    check.inputs += sum(len(decided) for _, decided, _ in inputs)
    return _validate(book.protos, book.facts, book.times, book.state, inputs, check.ledger[run_id])


def validate_journal(
    protos: Sequence[run_pb2.RunEvent], inputs: Sequence[tuple[int, bytes]], ledger: Iterable[Execution]
) -> RunState:
    """Checks the same lines on the stored events and inputs of one run from any journal, and on the agents' ledger."""
    must("V2", [e.seq for e in protos] == list(range(1, len(protos) + 1)), "the sequence has gaps")
    facts, times = [event_from_proto(e) for e in protos], [event_time(e) for e in protos]
    decoded = [(last_seq, *decode_inputs(data)) for last_seq, data in inputs]
    return _validate(protos, facts, times, fold_journal(protos), decoded, ledger)


def _validate(
    protos: Sequence[run_pb2.RunEvent],
    events: Sequence[ev.Event],
    times: Sequence[float],
    folded: RunState,
    inputs: Iterable[Decided],
    ledger: Iterable[Execution],
) -> RunState:
    must("V1", bool(events), "there is no event")
    must("V1", isinstance(events[0], ev.Submitted) and sum(isinstance(e, ev.Submitted) for e in events) == 1)
    if not isinstance(events[-1], ev.RunEnded):
        must("V1", False, f"run {protos[0].run_id} never ended: {events[-3:]}")
    must("V1", sum(isinstance(e, ev.RunEnded) for e in events) == 1, "it ended twice")
    validate_attempts(events)
    _epochs(protos, events)
    if folded.failure is not None and folded.failure.reason == "QUARANTINED":
        return folded  # D14: its journal is kept unchanged
    run = _decided_again(inputs, events, times)
    must("V6", folded == run and open_effects(folded) == open_effects(run), "folded and decided again differ")
    if run.state is TaskState.COMPLETED:
        for task in run.roots() if run.plan is None else ():
            must("V8", task.result_seq > 0, f"{task.task_id} has no result in a completed run")
    must("V7", all(task.ended for task in run.tasks.values()), f"run {protos[0].run_id} ended before its tasks")
    must("V13", not open_effects(run), f"run {protos[0].run_id} has ended with open effects")
    budget = run.submission.budget if run.submission else None
    if budget is not None and budget.tokens:
        must("V13", run.spent.tokens <= budget.tokens, f"{run.spent} of {budget} were spent")
    validate_executions(events, ledger)
    return run


def validate_attempts(events: Sequence[Any]) -> None:
    """Checks V3, and V8 to V11 as far as the events of one run show them."""
    current: dict[str, int] = defaultdict(int)
    ended: dict[str, bool] = defaultdict(lambda: True)
    results: set[str] = set()
    asking: set[str] = set()
    held: set[str] = set()
    cancelled = False
    stopped: set[str] = set()
    children: dict[tuple[str, str], str] = {}
    completed: set[str] = set()
    forked = bool(events[0].submission.parent_run_id)
    by_rule = _tasks_with_decision(events)
    for event in events:
        if isinstance(event, ev.CancelRequested):
            cancelled = True
        if isinstance(event, ev.Dispatched):
            must("V10", not cancelled, f"{event.task_id} was dispatched after the cancel")
            must("V10", event.task_id not in stopped, f"{event.task_id} was dispatched after it was stopped")
            must("V3", event.attempt == current[event.task_id] + 1, event)
            must("V3", ended[event.task_id], f"attempt {event.attempt} of {event.task_id} beside a live attempt")
            must("V3", event.task_id not in results, f"{event.task_id} was dispatched after its result")
            must("V3", event.task_id not in asking, f"{event.task_id} was dispatched before its question was answered")
            for context in event.context:
                source = events[context.seq - 1] if context.seq else None
                must(
                    "V11",
                    source is None or isinstance(source, ev.ItemPublished) or source.task_id in completed,
                    f"{event.role} began before {context.role} had completed",
                )
            current[event.task_id], ended[event.task_id] = event.attempt, False
            held.discard(event.task_id)
        elif isinstance(event, ev.TaskStopping):
            stopped.add(event.task_id)
        elif isinstance(event, ev.Delegated) and event.child:
            known = children.setdefault((event.task_id, event.memo_key), event.child)
            must("V9", known == event.child, f"{event.memo_key} of {event.task_id} is both {known} and {event.child}")
        elif isinstance(event, (ev.Lost, ev.Rejected, ev.Retried)):
            if event.failure.reason == UNDECIDED and event.task_id in by_rule:
                continue  # no attempt has failed
            must("V3", event.attempt == current[event.task_id] and not ended[event.task_id], event)
            ended[event.task_id] = True
            if isinstance(event, ev.Retried):
                asking.discard(event.task_id)
        elif isinstance(event, ev.InputRequested):
            is_known = forked and event.attempt == REUSED_ATTEMPT  # and answered in the forked run
            must("V3", is_known or (event.attempt == current[event.task_id] and not ended[event.task_id]), event)
            ended[event.task_id] = not event.sequence
            asking.add(event.task_id)
        elif isinstance(event, ev.ApprovalRequested):
            must("V3", event.attempt == current[event.task_id] and not ended[event.task_id], event)
            ended[event.task_id] = True
            asking.add(event.task_id)
            held.add(event.task_id)
        elif isinstance(event, ev.InputGiven):
            must("V8", event.task_id in asking, f"{event.task_id} received an answer without a question")
            asking.discard(event.task_id)
        elif isinstance(event, ev.ResultReceived):
            must("V3", event.attempt == current[event.task_id], event)
            released = event.task_id in held and event.task_id not in asking
            without = _reused(event, forked=forked) or (event.task_id in by_rule and not event.attempt)
            must("V3", not ended[event.task_id] or released or without, event)
            held.discard(event.task_id)
            must("V8", event.task_id not in results, f"two results of {event.task_id}")
            results.add(event.task_id)
            asking.discard(event.task_id)
            ended[event.task_id] = True
            if event.state is TaskState.COMPLETED:
                completed.add(event.task_id)


def _tasks_with_decision(events: Sequence[Any]) -> set[str]:
    steps: dict[str, Any] = {}
    found: set[str] = set()
    for event in events:
        if isinstance(event, ev.Planned):
            steps = {step.id: step for step in event.plan.subtasks}
        elif isinstance(event, ev.TaskCreated) and event.step_id and steps[event.step_id].decision:
            found.add(event.task_id)
    return found


def _reused(event: ev.ResultReceived, *, forked: bool) -> bool:
    return forked and event.attempt == REUSED_ATTEMPT and event.state is TaskState.COMPLETED


def _epochs(protos: Sequence[run_pb2.RunEvent], events: Sequence[ev.Event]) -> None:
    highest = 0
    for proto, event in zip(protos, events, strict=True):
        epoch = event.epoch if isinstance(event, (ev.Submitted, ev.Claimed)) else proto.task.epoch
        if epoch:
            must("V2", epoch >= highest, f"event {proto.seq} of epoch {epoch} after epoch {highest}")
            highest = max(highest, epoch)


def _decided_again(inputs: Iterable[Decided], events: Sequence[ev.Event], times: Sequence[float]) -> RunState:
    """Checks V6: deciding the stored inputs again gives the stored events. Returns the state after them."""
    run = RunState()
    for last_seq, decided_inputs, now in inputs:
        must("V6", run.last_seq == last_seq, f"inputs at {last_seq}, folded {run.last_seq}")
        for decided in decided_inputs:
            for event in decide(run, decided, now):
                if run.last_seq >= len(events) or event != events[run.last_seq]:
                    must("V6", False, f"decided {event}, stored {events[run.last_seq : run.last_seq + 1]}")
                must("V6", now == times[run.last_seq], "the event has another time")
                apply(run, events[run.last_seq], now)
    return run


def validate_executions(events: Sequence[Any], ledger: Iterable[Execution]) -> None:
    """Checks V4: a second finished execution needs a journaled end of the first attempt before its dispatch."""
    finished: dict[str, set[int]] = defaultdict(set)
    for execution in ledger:
        must("V4", execution.attempt not in finished[execution.task_id], execution)
        finished[execution.task_id].add(execution.attempt)
    for task_id, attempts in finished.items():
        for attempt in sorted(attempts)[:-1]:
            ends = (ev.Lost, ev.Rejected, ev.Retried, ev.ApprovalRequested)  # the last one of a failed attempt
            own = [e for e in events if getattr(e, "task_id", "") == task_id and getattr(e, "attempt", 0) == attempt]
            # An attempt that ended with a question has finished too.
            ended = any(isinstance(e, ends) or (isinstance(e, ev.InputRequested) and not e.sequence) for e in own)
            must("V4", ended, f"{task_id} was executed again after attempt {attempt} without a journaled loss")
