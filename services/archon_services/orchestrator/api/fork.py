"""Forks runs: a new run with the settings of another one, which reuses the tasks finished there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import MessageTooLarge
from archon.wire import MAX_CHECKED_BYTES
from archon_mesh.core.people import InterceptionRule
from archon_mesh.engine.types import Submission
from archon_services.orchestrator.api.fork_report import fork_report
from archon_services.orchestrator.api.rules import applicable_rules
from archon_services.orchestrator.api.validation import MAX_ID, check_goal, has_content
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.journal import Journal, NewRun, RunRow
from archon_services.orchestrator.journal.memory.journal import same_request
from archon_services.orchestrator.journal.retained import details_removed
from archon_services.orchestrator.observability.context import begin_trace, write_submitter
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.runs.states.changes import Asked, invalid
from archon_services.orchestrator.runs.states.fork_plan import ForkPlan, ForkPlanner
from archon_services.orchestrator.runs.states.load import fold_journal, load_events

MAX_CHANGES: Final = 200
"""Tasks that a request names to execute again, and answers that it edits."""

MAX_INPUTS: Final = 60
"""Inputs that a request edits: each may be a key of the run's metadata."""

_LIMITS: Final = {"rerun": MAX_CHANGES, "edited_answers": MAX_CHANGES, "edited_inputs": MAX_INPUTS}

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

        Raises the errors of `plan` and of `Runs.submit`."""
        plan = await self.plan(request, source)
        details: dict[str, Any] = {"after_seq": request.after_seq, "new_goal": bool(request.goal)}
        details |= {name: named for name, named in _named(request).items() if named}
        submission = plan.submission
        audit = self._audit.row("run.fork", run_id=submission.run_id, target=source.run_id, details=details)
        return await self._runs.submit(submission, _payload_hash(request), kept=plan.kept, audit=audit)

    async def preview(self, request: pb.ForkRunRequest, source: RunRow) -> pb.ForkRunResponse:
        """Returns the tasks that the new run would begin with, without creating it. Raises the errors of `plan`."""
        _check(request)
        return fork_report(await self.plan(request, source), request)

    async def plan(self, request: pb.ForkRunRequest, source: RunRow) -> ForkPlan:
        """Plans the fork. Raises RunExpired if the source's events are deleted, InvalidArgument if it has no event
        `after_seq` or a change cannot be made, DataLoss if its events cannot be read."""
        if source.compacted:
            raise details_removed(source.run_id)
        events = await load_events(self._journal, source.run_id)
        if not events:  # deleted in the meantime
            raise details_removed(source.run_id)
        until = _up_to(events, request.after_seq)
        state = fold_journal(until[:1], source.run_id)
        assert state.submission is not None
        is_kept = _is_kept(request, state.submission)
        editor = context.current().identity
        planner = ForkPlanner(until, _asked(request), is_kept=is_kept, is_replanned=bool(request.goal), editor=editor)
        return _checked(planner.plan(self._submission(request, state.submission)), request)

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
        raise invalid("request_id", f"longer than {MAX_ID} characters")
    if request.after_seq < 0:
        raise invalid("after_seq", "must not be negative")
    for field, limit in _LIMITS.items():
        if len(getattr(request, field)) > limit:
            raise invalid(field, f"more than {limit}")
    for answer in request.edited_answers:
        if not any(map(has_content, answer.parts)):
            raise invalid("edited_answers", f"the answer of {answer.task or 'a task'} is empty")
    for given in request.edited_inputs:
        if not given.text.strip():
            raise invalid("edited_inputs", f"the input of {given.task or 'a task'} is empty")
    if (size := request.ByteSize()) > MAX_CHECKED_BYTES:
        raise MessageTooLarge(
            f"message too large: the request has {size:,} bytes, at most {MAX_CHECKED_BYTES:,} are allowed",
            metadata={"size": str(size), "limit": str(MAX_CHECKED_BYTES)},
        )


def _up_to(events: Sequence[run_pb2.RunEvent], after_seq: int) -> Sequence[run_pb2.RunEvent]:
    if after_seq > len(events):
        raise invalid("after_seq", f"is {after_seq:,}, the last event of the run is {len(events):,}")
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


def _asked(request: pb.ForkRunRequest) -> Asked:
    answers = [(each.task, each.parts) for each in request.edited_answers]
    return Asked(request.rerun, answers, [(each.task, each.text) for each in request.edited_inputs])


def _named(request: pb.ForkRunRequest) -> dict[str, list[str]]:
    """The tasks that a request names, for the audit log."""
    edited = [each.task for each in request.edited_answers]
    inputs = [each.task for each in request.edited_inputs]
    return {"rerun": [*request.rerun], "edited_answers": edited, "edited_inputs": inputs}


def _checked(plan: ForkPlan, request: pb.ForkRunRequest) -> ForkPlan:
    rules = plan.submission.plan_rules
    if plan.kept.plan is None and rules is not None and not rules.has_planner:
        field = "goal" if request.goal else "rerun" if plan.changes.affected else "after_seq"
        raise invalid(field, "the run has no planner: its plan is for its goal, and begins with the first events")
    return plan


def _payload_hash(request: pb.ForkRunRequest) -> bytes:
    """SHA-256 of the request without its id; empty if it has none."""
    if not request.request_id:
        return b""
    payload = pb.ForkRunRequest()
    payload.CopyFrom(request)
    payload.ClearField("request_id")
    return hashlib.sha256(_HASH_PREFIX + payload.SerializeToString(deterministic=True)).digest()
