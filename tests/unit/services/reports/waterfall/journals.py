"""Journals of runs, written event by event at given seconds, with the records of their calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.failure_kinds import GIVEN_BACK
from archon.run_view import RunView
from archon.types import RunEvent
from archon.wire import set_seconds
from archon_services.reports.waterfall.calls import read_call
from archon_services.reports.waterfall.spans import Span, Waterfall
from archon_services.reports.waterfall.tree import waterfall

START = 1_700_000_000.0
"""Seconds since the epoch of the first event."""

COMPLETED, FAILED, CANCELED = (
    common_pb2.TASK_STATE_COMPLETED,
    common_pb2.TASK_STATE_FAILED,
    common_pb2.TASK_STATE_CANCELED,
)


class Journal:
    """Events and records of one run. Times are in seconds after its start."""

    def __init__(
        self, *roles: str, edges: Sequence[tuple[str, str]] = (), strategy: run_pb2.Strategy.ValueType | None = None
    ) -> None:
        self.events: list[run_pb2.RunEvent] = []
        self.records: list[run_pb2.RunRecord] = []
        pairs = [common_pb2.Edge(upstream=upstream, downstream=role) for upstream, role in edges]
        strategy = strategy or (run_pb2.STRATEGY_PIPELINE if edges else run_pb2.STRATEGY_AGENT)
        self.add(0, submitted=run_pb2.Submitted(roles=roles, edges=pairs, strategy=strategy, owner="orchestrator-1"))
        for role in roles:
            self.created(0, role)

    def add(self, at: float, task: str = "", attempt: int = 0, **payload: Any) -> None:
        event = run_pb2.RunEvent(run_id="run-1", seq=len(self.events) + 1, **payload)
        set_seconds(event.time, START + at)
        if task:
            event.task.run_id, event.task.task_id, event.task.attempt = "run-1", task, attempt
        self.events.append(event)

    def created(self, at: float, role: str, parent: str = "") -> None:
        """A task, whose id is its role."""
        state = run_pb2.TaskStateChanged(role=role, state=common_pb2.TASK_STATE_SUBMITTED, parent_task_id=parent)
        self.add(at, role, task_state=state)

    def dispatched(self, at: float, role: str, attempt: int = 1) -> None:
        self.add(at, role, attempt, dispatched=run_pb2.Dispatched(role=role, instance_id=f"{role}-i{attempt}"))

    def result(
        self,
        at: float,
        role: str,
        attempt: int = 1,
        state: common_pb2.TaskState.ValueType = COMPLETED,
        message: str = "",
        **usage: Any,
    ) -> None:
        payload = run_pb2.ResultReceived(role=role, state=state, usage=common_pb2.Usage(**usage))
        if message:
            payload.failure.message = message
        self.add(at, role, attempt, result=payload)

    def delegated(self, at: float, parent: str, role: str, attempt: int = 1, *, create: bool = True) -> None:
        """A delegation; its id is that of its role and attempt."""
        payload = run_pb2.Delegated(delegation_id=f"{role}.{attempt}", child_task_id=role, role=role)
        self.add(at, parent, attempt, delegated=payload)
        if create:
            self.created(at, role, parent)

    def refused(self, at: float, parent: str, role: str, message: str) -> None:
        payload = run_pb2.Delegated(delegation_id="no", role=role)
        payload.failure.message = message
        self.add(at, parent, 1, delegated=payload)

    def retry(self, at: float, role: str, attempt: int, not_before: float, message: str = "busy") -> None:
        payload = run_pb2.RetryScheduled(role=role, usage=common_pb2.Usage(input_tokens=5))
        payload.failure.message = message
        set_seconds(payload.not_before, START + not_before)
        self.add(at, role, attempt, retry=payload)

    def lost(self, at: float, role: str, attempt: int = 1) -> None:
        payload = run_pb2.Lost(instance_id=f"{role}-i{attempt}")
        payload.failure.message = "its session ended"
        self.add(at, role, attempt, lost=payload)

    def rejected(self, at: float, role: str, attempt: int = 1, *, given_back: bool = False) -> None:
        payload = run_pb2.RejectedByInstance(instance_id=f"{role}-i{attempt}")
        payload.failure.message = "not this instance"
        if given_back:
            payload.failure.metadata[GIVEN_BACK] = "true"
        self.add(at, role, attempt, rejected=payload)

    def asked(self, at: float, role: str, attempt: int = 1, *, sequence: int = 0) -> None:
        payload = run_pb2.InputRequested(input_id=f"{role}/{attempt}", role=role, sequence=sequence)
        self.add(at, role, attempt, input_requested=payload)

    def answered(self, at: float, role: str, attempt: int = 1) -> None:
        self.add(at, role, input_given=run_pb2.InputGiven(input_id=f"{role}/{attempt}"))

    def claimed(self, at: float, owner: str, epoch: int = 2) -> None:
        self.add(at, claimed=run_pb2.Claimed(owner=owner, epoch=epoch))

    def paused(self, at: float) -> None:
        self.add(at, paused=run_pb2.RunPaused())

    def resumed(self, at: float) -> None:
        self.add(at, resumed=run_pb2.RunResumed())

    def ended(self, at: float, state: common_pb2.TaskState.ValueType = COMPLETED, message: str = "") -> None:
        payload = run_pb2.RunStateChanged(state=state)
        if message:
            payload.failure.message = message
        self.add(at, run_state=payload)

    def call(
        self, role: str, start: float, end: float, kind: str = "model", target: str = "", attempt: int = 1, **more: Any
    ) -> None:
        """A record; `response` is its reply, the other fields are its usage."""
        response = json.dumps(more.pop("response", {}))
        record = run_pb2.RunRecord(
            role=role, kind=kind, target=target or "offline", response_json=response, usage=common_pb2.Usage(**more)
        )
        record.task.task_id, record.task.attempt = role, attempt
        set_seconds(record.start_time, START + start)
        set_seconds(record.duration, end - start)
        self.records.append(record)

    def waterfall(self, now: float = 0.0) -> Waterfall:
        view = RunView()
        for seq, event in enumerate(self.events, 1):  # a test may have moved them
            event.seq = seq if event.seq else 0
            view.apply(RunEvent(event))
        return waterfall(view, [read_call(record) for record in self.records], START + now)


def pipeline() -> Journal:
    """Three roles: `cook` and `baker` at the same time, `waiter` after both. Each has a model call."""
    journal = Journal("cook", "baker", "waiter", edges=[("cook", "waiter"), ("baker", "waiter")])
    journal.dispatched(0, "cook")
    journal.dispatched(1, "baker")
    journal.call("cook", 0.5, 3, input_tokens=100, output_tokens=20, cost_micro_usd=300)
    journal.result(4, "cook", input_tokens=100, output_tokens=20, model_calls=1, cost_micro_usd=300)
    journal.call("baker", 1, 5.5)
    journal.result(6, "baker", model_calls=1)
    journal.dispatched(6, "waiter")
    journal.call("waiter", 6, 9)
    journal.call("waiter", 9, 9.5, kind="tool", target="bell")
    journal.result(10, "waiter", model_calls=1)
    journal.ended(10)
    return journal


def delegation() -> Journal:
    """`lead` delegates to `cook`, from 2 s to 8 s."""
    journal = Journal("lead")
    journal.dispatched(0, "lead")
    journal.call("lead", 0, 2)
    journal.delegated(2, "lead", "cook")
    journal.dispatched(3, "cook")
    journal.call("cook", 3, 7)
    journal.result(8, "cook")
    journal.call("lead", 8, 9)
    journal.result(10, "lead")
    journal.ended(10)
    return journal


def shape(spans: Sequence[Span]) -> list[Any]:
    """Returns kind, name, start and end (seconds after the start of the run), and the spans below as a last item."""
    shapes = []
    for span in spans:
        times = (round(span.start - START, 3), round(span.end - START, 3))
        below = shape(span.children)
        shapes.append((span.kind.value, span.name, *times, below) if below else (span.kind.value, span.name, *times))
    return shapes


def path(drawn: Waterfall) -> list[tuple[str, str, float, float]]:
    """Returns name of the span, kind of time, start and end of each step of the critical path."""
    return [
        (step.span.name, step.kind.value, round(step.start - START, 3), round(step.end - START, 3))
        for step in drawn.path
    ]


def committee() -> Journal:
    """Two roles whose answers differ: the rule of the step `pick` chooses that of `baker`."""
    journal = Journal()
    for role, ids in (("cook", ()), ("baker", ()), ("", ("cook", "baker"))):
        state = run_pb2.TaskStateChanged(role=role, state=common_pb2.TASK_STATE_SUBMITTED, predecessors=ids)
        state.step_id = f"pick-{role}" if role else "pick"
        journal.add(0, role or "pick", task_state=state)
    journal.dispatched(0, "cook")
    journal.dispatched(0, "baker")
    journal.result(4, "cook")
    journal.result(8, "baker")
    payload = run_pb2.ResultReceived(state=COMPLETED)
    chosen = payload.resolution
    chosen.rule, chosen.winner_step_id, chosen.reason = "best", "pick-baker", "the answer of pick-baker has 9 of 10"
    chosen.conflict = "pick-cook says something else"
    journal.add(8, "pick", result=payload)
    journal.ended(8)
    return journal
