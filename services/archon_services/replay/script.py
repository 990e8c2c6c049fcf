"""The script of a recorded run: the acts of its agents and its callers, one cue after the other."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from archon.api.agent.v1 import agent_pb2, message_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FailedPrecondition
from archon.types import Plan, RunRecord
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import Task as EnginePlan
from archon_mesh.engine.types import DRAINING, Failure
from archon_services.orchestrator.convert import failure_to_proto
from archon_services.orchestrator.convert.budget import amount_to_proto
from archon_services.orchestrator.convert.plan import write_planned
from archon_services.replay.naming import Names
from archon_services.replay.recorded_run import Decision, Recording

DISPATCHED: Final = "dispatched"
GONE: Final = "gone"
"""The kind of an event by which an attempt ends without a result of its own: lost, or rejected."""

_RECORD_KINDS: Final = {"model": agent_pb2.RECORD_KIND_MODEL, "tool": agent_pb2.RECORD_KIND_TOOL}
_UNPLAYED: Final = (inp.Tick, inp.JournalFull, inp.UsageIn)
"""Inputs of the clock, and of limits: they cannot be made to come again at their place."""

_IGNORED: Final = (inp.PublishedIn, inp.RecordsIn, inp.Claim, inp.WorkingIn, inp.DecisionIn, inp.InputMissing)
_CALLS: Final = (inp.Cancel, inp.Respond, inp.Pause, inp.Resume, inp.EditPlan, inp.SetBreakpoints)
_CALLED: Final[dict[type, str]] = {
    inp.Cancel: "cancel_requested",
    inp.Respond: "input_given",
    inp.Pause: "paused",
    inp.Resume: "resumed",
    inp.EditPlan: "planned",
    inp.SetBreakpoints: "breakpoints_set",
}
"""The event that each call of a caller causes."""

_RESULTS: Final = (inp.ResultIn, inp.PlanIn, inp.QuestionIn)


@dataclass(slots=True)
class Cue:
    """A thing that happened, by event `seq`: it is over once the event `kind` of the task named `task` comes again.
    `frames` are sent by the attempt; `call` is the event that a caller caused. Without either it is only waited for.
    `needs_slot`: it comes once an instance of the role has a free slot."""

    seq: int
    time: float
    kind: str
    task: str = ""
    role: str = ""
    attempt: int = 0
    frames: list[session_pb2.AgentFrame] = field(default_factory=list)
    call: run_pb2.RunEvent | None = None
    plan_json: str = ""
    needs_slot: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """The cues of a run in order. It ends at event `end`, for the reason `stops`, if the rest cannot be played;
    else it has everything, and `stops` is empty. `reused` are the tasks whose answers a fork took over, `answered`
    those whose questions it took over with the answers of people."""

    names: Names
    cues: tuple[Cue, ...]
    end: int
    stops: str = ""
    reused: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    planner: str = ""
    """The task of the planner, if the run began with a plan."""


def script_of(recording: Recording, records: Iterable[RunRecord]) -> Script:
    """Returns the script of a recorded run. Raises FailedPrecondition if it cannot be run again."""
    if recording.difference is not None:
        raise FailedPrecondition("today's engine decides the recording otherwise: it cannot be run again")
    if recording.undecided:  # a run in quarantine, or of an earlier version
        raise FailedPrecondition(
            f"{recording.undecided} events were stored without their inputs: the run cannot be run again"
        )
    return _Writer(recording, records).write()


class _Writer:
    def __init__(self, recording: Recording, records: Iterable[RunRecord]) -> None:
        self._recording = recording
        self._names = Names()
        for event in recording.events:
            self._names.add(event)
        self._records: dict[tuple[str, int], deque[RunRecord]] = defaultdict(deque)
        for record in records:
            self._records[record.task.task_id, record.task.attempt].append(record)
        self._stored: Counter[tuple[str, int]] = Counter()
        """Records that were stored and are not sent yet, by attempt."""
        self._reused: set[str] = set()
        self._answered: set[str] = set()
        self._planner = ""
        if first_plan(recording) is not None:
            self._planner = self._names.tasks[recording.state.root_ids[0]]

    def write(self) -> Script:
        cues: list[Cue] = []
        for decision in self._recording.decisions:
            if isinstance(decision.input, _UNPLAYED) and decision.seqs:
                first = self._recording.event(decision.seqs[0])
                return self._script(cues, decision.seqs[0] - 1, _reason(decision, first))
            cues += self._cues(decision)
        events = self._recording.events
        goes_on = "" if self._recording.state.ended else "the recording ends there: the run had not ended"
        return self._script(cues, len(events), goes_on)

    def _script(self, cues: list[Cue], end: int, stops: str) -> Script:
        return Script(
            self._names, tuple(cues), end, stops, frozenset(self._reused), frozenset(self._answered), self._planner
        )

    def _cues(self, decision: Decision) -> Iterator[Cue]:
        given = decision.input
        events = [self._recording.event(seq) for seq in decision.seqs]
        for event in events:
            if event.HasField("recorded"):
                self._stored[event.task.task_id, event.task.attempt] += event.recorded.count
        if not events or isinstance(given, _IGNORED):
            return
        if isinstance(given, inp.Submit):
            yield from self._taken_over(events)
            return
        if isinstance(given, _CALLS):
            kind = _CALLED[type(given)]
            main = next((event for event in events if event.HasField(kind)), None)  # type: ignore[arg-type]
            if main is not None:
                cue = self._cue(main, kind, call=main)
                if isinstance(given, inp.EditPlan):
                    cue.plan_json = plan_json_of(given.plan)
                yield cue
            return
        main = next((event for event in events if not event.HasField("recorded")), None)
        if main is None:
            return
        kind = main.WhichOneof("event") or ""
        if kind == "discarded" or (isinstance(given, _RESULTS) and kind == "task_state"):
            return  # the orchestrator asks for the end of the attempt, and gets it at once
        if isinstance(given, (inp.LostIn, inp.RejectIn)):
            kind = GONE
        cue = self._cue(main, kind)
        cue.needs_slot = isinstance(given, inp.SlotFound)  # the dispatch, or the hold of a breakpoint before it
        if kind != DISPATCHED:
            frames = self._frames(given, main, events)
            cue.frames = [*self._call_records(main), *frames] if frames else []
        yield cue

    def _taken_over(self, events: list[run_pb2.RunEvent]) -> Iterator[Cue]:
        """The answers that a fork has taken over are given again by the first attempts at their tasks."""
        for event in events:
            if event.HasField("result") and self._names.tasks[event.task.task_id] != self._planner:
                self._reused.add(self._names.tasks[event.task.task_id])
                for kind in (DISPATCHED, "result"):
                    cue = self._cue(event, kind)
                    cue.attempt = 1
                    if kind == DISPATCHED:
                        yield cue
                cue.frames = [_frame(result=self._result(event.result, _items(events, event)))]
                yield cue
            elif event.HasField("input_requested"):
                self._answered.add(self._names.tasks[event.task.task_id])

    def _cue(self, event: run_pb2.RunEvent, kind: str, *, call: run_pb2.RunEvent | None = None) -> Cue:
        task_id = event.task.task_id
        task = self._recording.state.tasks.get(task_id)
        return Cue(
            event.seq,
            event.time.ToNanoseconds() / 1e9,
            kind,
            self._names.tasks.get(task_id, ""),
            task.role if task is not None else "",
            event.task.attempt,
            call=call,
        )

    def _call_records(self, event: run_pb2.RunEvent) -> list[session_pb2.AgentFrame]:
        """The records of the attempt that were stored up to this event, and not sent yet."""
        key = event.task.task_id, event.task.attempt
        stored, wanted = self._records[key], self._stored.pop(key, 0)
        return [_frame(record=_call_record(stored.popleft())) for _ in range(min(wanted, len(stored)))]

    def _frames(
        self, given: inp.Input, event: run_pb2.RunEvent, events: list[run_pb2.RunEvent]
    ) -> list[session_pb2.AgentFrame]:
        match given:
            case inp.LostIn():
                reason = DRAINING if given.on_purpose else "NOT_HELD"
                gone = Failure("UNAVAILABLE", reason, "in the recording, its instance was lost")
                return [_frame(reject=session_pb2.Reject(failure=failure_to_proto(gone)))]
            case inp.RejectIn():
                return [_frame(reject=session_pb2.Reject(failure=failure_to_proto(given.failure)))]
            case inp.DelegateIn():
                return [_frame(delegate=_delegate(given, event.delegated))]
            case inp.CancelDelegationIn():
                cancel = session_pb2.CancelDelegation(delegation_id=given.delegation_id)
                return [_frame(cancel_delegation=cancel)]
            case inp.BudgetRequestIn():
                request = session_pb2.BudgetRequest(request_id=given.request_id)
                amount_to_proto(given.wanted, request.budget)
                return [_frame(budget_request=request)]
            case inp.CheckpointIn():
                return [_frame(checkpoint=session_pb2.Checkpoint(data=event.checkpoint.data))]
            case inp.PublishIn():
                item = event.item_published
                published = session_pb2.Publish(parts=item.parts, policy=item.policy, metadata=item.metadata)
                return [_frame(publish=published)]
            case inp.SendIn():
                return [_frame(send_message=self._message(given, event.message_sent.message))]
            case inp.SubscribeIn():
                return [_frame(subscribe=session_pb2.Subscribe(topics=given.topics))]
            case inp.AskIn():
                return [_frame(ask=_question(given.input_id, event.input_requested))]
            case inp.ResultIn():
                return [_frame(result=self._outcome(given, event, events))]
        return []

    def _outcome(
        self, given: inp.ResultIn, event: run_pb2.RunEvent, events: list[run_pb2.RunEvent]
    ) -> agent_pb2.TaskResult:
        match event.WhichOneof("event"):
            case "input_requested":
                asked = event.input_requested
                result = agent_pb2.TaskResult(
                    state=common_pb2.TASK_STATE_INPUT_REQUIRED,
                    input_request=_question(given.input_id, asked),
                    checkpoint=asked.checkpoint,
                )
                if asked.HasField("usage"):
                    result.usage.CopyFrom(asked.usage)
                return result
            case "approval_requested":
                return self._result(event.approval_requested.result, event.approval_requested.items)
            case "retry":
                retry = event.retry
                result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_FAILED, failure=retry.failure)
                if retry.HasField("usage"):
                    result.usage.CopyFrom(retry.usage)
                return result
        return self._result(event.result, _items(events, event))

    def _result(self, source: run_pb2.ResultReceived, items: Iterable[run_pb2.ItemPublished]) -> agent_pb2.TaskResult:
        result = agent_pb2.TaskResult(
            state=source.state,
            output=source.output,
            used=source.used,
            no_publish=source.no_publish,
            metadata=source.metadata,
            messages_read=source.messages_read,
        )
        if source.HasField("failure"):
            result.failure.CopyFrom(source.failure)
        if source.HasField("usage"):
            result.usage.CopyFrom(source.usage)
        if source.remembered:
            result.new_history.add(role="assistant", parts=source.output)
        for item in items:
            result.items.add(parts=item.parts, policy=item.policy, metadata=item.metadata)
        return result

    def _message(self, given: inp.SendIn, source: message_pb2.PeerMessage) -> message_pb2.PeerMessage:
        message = message_pb2.PeerMessage()
        message.CopyFrom(source)
        for name in ("sender_id", "sender_task_id", "seq", "send_time"):
            message.ClearField(name)
        message.expects_reply = given.expects_reply
        return message


def plan_json_of(plan: EnginePlan) -> str:
    """Returns a plan as the JSON with which it is submitted and edited."""
    out = run_pb2.RunEvent()
    write_planned(out, ev.Planned("", 0, plan))
    return Plan.from_proto(out.planned.plan).to_json()


def first_plan(recording: Recording) -> EnginePlan | None:
    """Returns the plan that a run began with, None if it began without one."""
    submit = recording.decisions[0].input
    return submit.plan.plan if isinstance(submit, inp.Submit) and submit.plan is not None else None


def _items(events: list[run_pb2.RunEvent], result: run_pb2.RunEvent) -> list[run_pb2.ItemPublished]:
    """The items that were published right after a result."""
    return [
        event.item_published
        for event in events
        if event.HasField("item_published")
        and not event.item_published.sequence
        and event.task.task_id == result.task.task_id
    ]


def _question(input_id: str, asked: run_pb2.InputRequested) -> agent_pb2.InputRequest:
    """The question again, which anyone may answer: who answers is not replayed, and was decided again before."""
    request = agent_pb2.InputRequest(
        input_id=input_id,
        prompt=asked.prompt,
        schema_json=asked.schema_json,
        kind=asked.kind,
        subject_json=asked.subject_json,
    )
    if asked.HasField("terms"):
        request.terms.CopyFrom(asked.terms)
        request.terms.ClearField("approvers")
    return request


def _delegate(given: inp.DelegateIn, source: run_pb2.Delegated) -> session_pb2.Delegate:
    delegate = session_pb2.Delegate(
        delegation_id=given.delegation_id,
        input=source.input,
        memo_key=given.memo_key,
        checkpoint=source.checkpoint,
        timeout=source.timeout,
    )
    if given.capability:
        delegate.capability = given.capability
    else:
        delegate.role = given.role
    if source.HasField("budget"):
        delegate.budget.CopyFrom(source.budget)
    return delegate


def _call_record(record: RunRecord) -> agent_pb2.CallRecord:
    source = record.proto
    call = agent_pb2.CallRecord(
        kind=_RECORD_KINDS.get(source.kind, agent_pb2.RECORD_KIND_UNSPECIFIED),
        start_time=source.start_time,
        duration=source.duration,
        request_json=source.request_json,
        response_json=source.response_json,
        target=source.target,
    )
    if source.HasField("usage"):
        call.usage.CopyFrom(source.usage)
    return call


def _frame(**content: object) -> session_pb2.AgentFrame:
    return session_pb2.AgentFrame(**content)  # type: ignore[arg-type]


def _reason(decision: Decision, event: run_pb2.RunEvent) -> str:
    kind = (event.WhichOneof("event") or "").replace("_", " ")
    causes = {inp.JournalFull: "the size of its journal", inp.UsageIn: "spending that was reported meanwhile"}
    cause = causes.get(type(decision.input), "the clock")
    return f"{cause} caused event {event.seq} ({kind}), which is not made to come again"
