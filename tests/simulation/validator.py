"""What must hold of every course, by the numbers of docs/durability.md ("What a validator checks")."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import RunState, decide, open_effects
from archon_mesh.core.run import events as ev
from archon_mesh.core.run.codec import decode_inputs
from archon_mesh.core.run.common import TaskState
from archon_services.orchestrator.convert import event_from_proto, seconds
from archon_services.orchestrator.journal import MemoryJournal
from tests.simulation.agents import Execution


class Violation(AssertionError):
    """A line of the validator doesn't hold."""


def must(line: str, holds: bool, why: object = "") -> None:
    """Raises Violation that names the line."""
    if not holds:
        raise Violation(f"{line}: {why}")


class Check:
    """Looks at what leaves while it leaves."""

    def __init__(self) -> None:
        self.journal: MemoryJournal | None = None
        self.given: dict[tuple[str, int], tuple[str, ...]] = {}
        self.answers: dict[tuple[str, str], bytes] = {}
        self.violation: Violation | None = None
        """The first: raised in a driver it would only look like one that fails."""

    def _must(self, line: str, holds: bool, why: object = "") -> None:
        try:
            must(line, holds, why)
        except Violation as violation:
            self.violation = self.violation or violation
            raise

    def _events(self, run_id: str) -> list[run_pb2.RunEvent]:
        assert self.journal is not None
        return [run_pb2.RunEvent.FromString(data) for data in self.journal._events.get(run_id, [])]

    def assigned(self, ref: common_pb2.TaskRef, instance_id: str, task: agent_pb2.AssignTask) -> None:
        """V5: AssignTask leaves after its dispatch is durable. V11: with what the dispatch recorded."""
        events = self._events(ref.run_id)
        dispatched = [
            e
            for e in events
            if e.WhichOneof("event") == "dispatched"
            and (e.task.task_id, e.task.attempt) == (ref.task_id, ref.attempt)
            and e.dispatched.instance_id == instance_id
        ]
        self._must("V5", bool(dispatched), f"{ref.task_id} attempt {ref.attempt} left before its dispatch was durable")
        texts = tuple(part.text for item in task.context for part in item.parts)
        recorded = tuple(events[g.seq - 1].result.output[0].text for g in dispatched[0].dispatched.given)
        self._must("V11", texts == recorded, f"given {texts}, recorded {recorded}")
        self.given[ref.task_id, ref.attempt] = texts

    def answered(self, ref: common_pb2.TaskRef, told: session_pb2.DelegateResult) -> None:
        """V5: DelegateResult leaves after the child's end is durable. V9: later attempts get the same bytes."""
        events = self._events(ref.run_id)
        asked = [
            e.delegated
            for e in events
            if e.WhichOneof("event") == "delegated"
            and (e.task.task_id, e.task.attempt) == (ref.task_id, ref.attempt)
            and e.delegated.delegation_id == told.delegation_id
        ]
        self._must("V5", len(asked) == 1, f"{told.delegation_id} of {ref.task_id} was answered before it was durable")
        if asked[0].HasField("failure"):
            return
        child = asked[0].child_task_id
        ended = any(
            e.task.task_id == child
            and (e.WhichOneof("event") in ("result", "discarded") or e.task_state.state > 2 or e.task_state.stopping)
            for e in events
        )
        self._must("V5", ended, f"{told.delegation_id} of {ref.task_id} was answered before {child} had ended")
        bytes_of = told.result.SerializeToString(deterministic=True)
        first = self.answers.setdefault((ref.task_id, asked[0].memo_key), bytes_of)
        self._must("V9", first == bytes_of, f"{asked[0].memo_key} of {ref.task_id} was answered in two ways")

    def acked(self, ref: common_pb2.TaskRef) -> None:
        """V5: an accepted ack means that the event is durable."""
        seen = any(
            e.WhichOneof("event") in ("result", "discarded", "task_state", "lost", "run_state")
            and (e.WhichOneof("event") == "run_state" or e.task.task_id == ref.task_id)
            for e in self._events(ref.run_id)
        )
        self._must("V5", seen, f"the result of {ref.task_id} was acked before it was durable")


async def validate_run(journal: MemoryJournal, run_id: str, ledger: list[Execution]) -> RunState:
    """Lines 1 to 6, 8, 10 and 11 over one run's journal."""
    protos = [run_pb2.RunEvent.FromString(data) for data in await journal.events(run_id, 0, 100_000)]
    must("V2", [e.seq for e in protos] == list(range(1, len(protos) + 1)), "the sequence has gaps")
    events = [event_from_proto(e) for e in protos]
    times = [seconds(e) for e in protos]
    must("V1", isinstance(events[0], ev.Submitted) and sum(isinstance(e, ev.Submitted) for e in events) == 1)
    must("V1", isinstance(events[-1], ev.RunEnded), f"run {run_id} never ended: {events[-3:]}")
    must("V1", sum(isinstance(e, ev.RunEnded) for e in events) == 1, "it ended twice")
    _attempts(events)
    _epochs(protos)
    run = await _decided_again(journal, run_id, events, times)
    if run.state is TaskState.COMPLETED:
        for task in run.roots():
            must("V8", task.result_seq > 0, f"{task.task_id} has no result in a completed run")
    must("V7", all(task.ended for task in run.tasks.values()), f"run {run_id} ended before its tasks")
    budget = run.submission.budget if run.submission else None
    if budget is not None and budget.tokens:
        must("V13", run.spent.tokens <= budget.tokens, f"{run.spent} of {budget} were spent")
    _redone(events, [e for e in ledger if e.task_id.split(".")[0] == run_id])
    return run


def _attempts(events: list[Any]) -> None:
    current: dict[str, int] = defaultdict(int)
    ended: dict[str, bool] = defaultdict(lambda: True)
    results: set[str] = set()
    cancelled = False
    stopped: set[str] = set()
    children: dict[tuple[str, str], str] = {}
    done: set[str] = set()
    for event in events:
        if isinstance(event, ev.CancelRequested):
            cancelled = True
        if isinstance(event, ev.Dispatched):
            must("V10", not cancelled, f"{event.task_id} was dispatched after the cancel")
            must("V10", event.task_id not in stopped, f"{event.task_id} was dispatched after it was to stop")
            must("V3", event.attempt == current[event.task_id] + 1, event)
            must("V3", ended[event.task_id], f"attempt {event.attempt} of {event.task_id} beside a live one")
            must("V3", event.task_id not in results, f"{event.task_id} was dispatched after its result")
            for given in event.given:
                must("V11", given.role in done, f"{event.role} began before {given.role} was done")
            current[event.task_id], ended[event.task_id] = event.attempt, False
        elif isinstance(event, ev.TaskStopping):
            stopped.add(event.task_id)
        elif isinstance(event, ev.Delegated) and event.child:
            known = children.setdefault((event.task_id, event.memo_key), event.child)
            must("V9", known == event.child, f"{event.memo_key} of {event.task_id} is both {known} and {event.child}")
        elif isinstance(event, (ev.Lost, ev.Rejected, ev.Retried)):
            must("V3", event.attempt == current[event.task_id] and not ended[event.task_id], event)
            ended[event.task_id] = True
        elif isinstance(event, ev.ResultReceived):
            must("V3", event.attempt == current[event.task_id], f"accepted {event}, current {current[event.task_id]}")
            must("V3", not ended[event.task_id], f"{event} after its attempt had ended")
            must("V8", event.task_id not in results, f"two results of {event.task_id}")
            results.add(event.task_id)
            ended[event.task_id] = True
            if event.state is TaskState.COMPLETED:
                done.add(event.role)


def _epochs(protos: list[run_pb2.RunEvent]) -> None:
    highest = 0
    for proto in protos:
        epoch = {"submitted": proto.submitted.epoch, "claimed": proto.claimed.epoch}.get(
            proto.WhichOneof("event") or "", proto.task.epoch
        )
        if epoch:
            must("V2", epoch >= highest, f"event {proto.seq} of epoch {epoch} after one of {highest}")
            highest = max(highest, epoch)


async def _decided_again(journal: MemoryJournal, run_id: str, events: list[Any], times: list[float]) -> RunState:
    """V6: deciding the stored inputs again gives the stored events, and folding gives the same state."""
    run = RunState()
    for last_seq, data in await journal.inputs(run_id):
        must("V6", run.last_seq == last_seq, f"inputs at {last_seq}, folded {run.last_seq}")
        given, now = decode_inputs(data)
        for one in given:
            for event in decide(run, one, now):
                must("V6", event == events[run.last_seq], f"decided {event}, stored {events[run.last_seq]}")
                must("V6", now == times[run.last_seq], "another time")
                run.apply(events[run.last_seq], now)
    folded = RunState()
    for event, time in zip(events, times, strict=True):
        folded.apply(event, time)
    must("V6", folded == run and open_effects(folded) == open_effects(run), "fold and live differ")
    return run


def _redone(events: list[Any], ledger: list[Execution]) -> None:
    """V4: a second finished execution needs a journaled end of the first attempt before its dispatch."""
    finished: dict[str, set[int]] = defaultdict(set)
    for execution in ledger:
        must("V4", execution.attempt not in finished[execution.task_id], f"{execution} was executed twice")
        finished[execution.task_id].add(execution.attempt)
    for task_id, attempts in finished.items():
        for attempt in sorted(attempts)[:-1]:
            ends = (ev.Lost, ev.Rejected, ev.Retried)
            ended = any(isinstance(e, ends) and (e.task_id, e.attempt) == (task_id, attempt) for e in events)
            must("V4", ended, f"{task_id} was redone after attempt {attempt} without a journaled loss")
