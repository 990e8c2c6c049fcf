"""Forks runs: a new run with the settings of another one, which reuses the tasks finished there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from archon import context
from archon.api.agent.v1 import agent_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FieldViolation, InvalidArgument, RunExpired
from archon_mesh.core.people import InterceptionRule
from archon_mesh.engine import RunState
from archon_mesh.engine.decide.fork import reusable, reusable_plan
from archon_mesh.engine.types import Payload, Submission
from archon_services.orchestrator.api.rules import applicable_rules
from archon_services.orchestrator.api.validation import MAX_ID, check_goal
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.journal import Journal, NewRun, RunRow
from archon_services.orchestrator.journal.memory.journal import same_request
from archon_services.orchestrator.observability.context import begin_trace, write_submitter
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.states.kept import NOTHING_KEPT, Kept, answered_inputs
from archon_services.orchestrator.runs.states.load import fold_journal, load_events

_HASH_PREFIX: Final = b"ForkRun\0"
"""Keeps the payload of a fork different from the payload of any submit."""


class RunForks:
    """Forks runs of a journal, whichever replica owns them."""

    def __init__(
        self, runs: Runs, journal: Journal, audit: AuditRecord, rules: Sequence[InterceptionRule] = ()
    ) -> None:
        self._rules = rules
        self._audit = audit
        self._runs = runs
        self._journal = journal

    async def accepted(self, request: pb.ForkRunRequest) -> str:
        """Returns the run that the same request created before; empty if there is none. Raises InvalidArgument,
        EmptyGoal and MessageTooLarge if the request is invalid, RequestIdReused if its id came with another payload."""
        _check(request)
        if not request.request_id:
            return ""
        tenant = context.current().tenant
        known = await self._journal.request(tenant, request.request_id)
        if known is None:
            return ""
        new = NewRun("", tenant, request.request_id, _payload_hash(request), "", "")
        return same_request(known[0], new, known[1]).run_id

    async def fork(self, request: pb.ForkRunRequest, source: RunRow) -> tuple[str, bool]:
        """Creates the new run, durable on return. Returns (run_id, True), or (the run of the same request, False).

        Raises RunExpired if the source's events are deleted, InvalidArgument if it has no event `after_seq`, DataLoss
        if its events cannot be read, and the errors of `Runs.submit`."""
        expired = RunExpired(
            f"the events of run {source.run_id} have been deleted: it cannot be forked",
            metadata={"run_id": source.run_id},
        )
        if source.compacted:
            raise expired
        events = await load_events(self._journal, source.run_id)
        if not events:  # deleted in the meantime
            raise expired
        until = _up_to(events, request.after_seq)
        state = fold_journal(until, source.run_id)
        assert state.submission is not None
        submission = self._submission(request, state.submission)
        kept = _kept(state, until, request) if _is_kept(request, state.submission) else NOTHING_KEPT
        if kept.plan is None and submission.plan_rules is not None and not submission.plan_rules.has_planner:
            field = "goal" if request.goal else "after_seq"
            raise _invalid(field, "the run has no planner: its plan is for its goal, and begins with the first events")
        details = {"after_seq": request.after_seq, "new_goal": bool(request.goal)}
        audit = self._audit.row("run.fork", run_id=submission.run_id, target=source.run_id, details=details)
        return await self._runs.submit(submission, _payload_hash(request), kept=kept, audit=audit)

    def _submission(self, request: pb.ForkRunRequest, source: Submission) -> Submission:
        goal = run_pb2.Submitted()
        if isinstance(source.goal, run_pb2.Submitted):
            goal.CopyFrom(source.goal)
        if request.goal:
            del goal.goal[:]
            goal.goal.extend(request.goal)
        run_id = self._runs.new_id()
        goal.ClearField("trace")
        goal.ClearField("traced")
        begin_trace(goal, run_id)
        goal.ClearField("identity")
        goal.ClearField("actor")
        write_submitter(goal)
        return replace(
            source,
            run_id=run_id,
            request_id=request.request_id,
            goal=goal,
            pause_timeout=self._runs.limits.pause_timeout,
            parent_run_id=source.run_id,
            rules=applicable_rules(self._rules, source.tenant),
        )


def _check(request: pb.ForkRunRequest) -> None:
    if request.goal:
        check_goal(request)
    if len(request.request_id) > MAX_ID:
        raise _invalid("request_id", f"longer than {MAX_ID} characters")
    if request.after_seq < 0:
        raise _invalid("after_seq", "must not be negative")


def _up_to(events: Sequence[run_pb2.RunEvent], after_seq: int) -> Sequence[run_pb2.RunEvent]:
    if after_seq > len(events):
        raise _invalid("after_seq", f"is {after_seq:,}, the last event of the run is {len(events):,}")
    return events[:after_seq] if after_seq else events


def _is_kept(request: pb.ForkRunRequest, source: Submission) -> bool:
    """Whether anything of the forked run is kept: answers to another goal are not, unless the caller says up to which
    event."""
    goal = source.goal
    return (
        not request.goal
        or request.after_seq > 0
        or (isinstance(goal, run_pb2.Submitted) and list(goal.goal) == list(request.goal))
    )


def _kept(state: RunState, events: Sequence[run_pb2.RunEvent], request: pb.ForkRunRequest) -> Kept:
    """The part of the run that the new one keeps, without the usage: it has not spent it. A plan for another goal is
    not kept."""
    is_replanned = state.plan is not None and bool(request.goal)
    plan = None if is_replanned else reusable_plan(state, _planner_payload(state))
    answers = reusable(state, lambda seq: not events[seq - 1].result.no_publish)
    if state.plan is not None and plan is None:
        answers = ()
    for answer in answers:
        if isinstance(answer.payload, agent_pb2.TaskResult):
            answer.payload.ClearField("usage")
    return Kept(answers, plan, () if request.goal else answered_inputs(state, events))


def _planner_payload(state: RunState) -> Payload:
    """The answer of the planner that made the first plan; None before there is one."""
    if state.plan is None or not state.plan.steps:
        return None
    planner = state.tasks[state.root_ids[0]]
    if isinstance(planner.payload, agent_pb2.TaskResult):
        planner.payload.ClearField("usage")
    return planner.payload


def _payload_hash(request: pb.ForkRunRequest) -> bytes:
    """SHA-256 of the request without its id; empty if it has none."""
    if not request.request_id:
        return b""
    payload = pb.ForkRunRequest()
    payload.CopyFrom(request)
    payload.ClearField("request_id")
    return hashlib.sha256(_HASH_PREFIX + payload.SerializeToString(deterministic=True)).digest()


def _invalid(field: str, description: str) -> InvalidArgument:
    return InvalidArgument(f"{field}: {description}", field_violations=[FieldViolation(field, description)])
