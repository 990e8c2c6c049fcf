"""Decides about approvals: which result waits for a person because of a rule, and the events that follow the
decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from archon_mesh.core.people import Decision, InterceptionRule, Situation, Trigger
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.plan import without_statuses
from archon_mesh.engine.decide.plan_reply import MAX_FAULTS, AcceptedPlan, faults_of, reaccepted
from archon_mesh.engine.decide.retries import recovery_exhausted
from archon_mesh.engine.decide.task_end import end_with_result, fail
from archon_mesh.engine.decide.termination import ending, then_end
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import (
    APPROVAL_REJECTED,
    CONVERSATION_MOVED,
    NOTHING,
    PLAN_FAILED,
    Failure,
    Payload,
    TaskState,
)

MAX_QUESTIONS = 100
"""The most questions that one task can have people asked."""

MAX_SHOWN_STEPS = 30
"""Steps of a plan that the text of a question names."""

_MILLIONTHS = 1_000_000


def approval(
    run: RunState,
    task: Task,
    result: inp.ResultIn,
    event: ev.ResultReceived | ev.Retried,
    accepted: AcceptedPlan | None,
) -> ev.ApprovalRequested | None:
    """Returns the request for approval that comes in place of the event of an attempt's result; None if no rule asks.
    `accepted` is the plan that the planner's result holds."""
    submission = run.submission
    assert submission is not None
    if task.align and accepted is None:
        return None  # nothing follows from it
    if not submission.rules or len(task.questions) >= MAX_QUESTIONS:
        return None
    matching = [
        rule
        for situation in _situations(run, task, result, event, accepted)
        for rule in submission.rules
        if rule.matches(situation)
    ]
    if not matching:
        return None
    rule = max(matching, key=lambda each: each.priority)
    failure = event.failure
    return ev.ApprovalRequested(
        task.task_id,
        task.attempt,
        task.role,
        f"{task.task_id}/approval-{len(task.questions) + 1}",
        rule.terms,
        result.payload,
        failure,
        result.spent,
        failure is None and isinstance(event, ev.ResultReceived) and event.publish,
        result.items if failure is None else (),
        without_statuses(accepted.plan) if accepted is not None else None,
        accepted.changes if accepted is not None else (),
        rule.message or _text(run, task, rule, failure, accepted),
        accepted.reason if accepted is not None else "",
        event.winner if isinstance(event, ev.ResultReceived) else "",
    )


def _situations(
    run: RunState,
    task: Task,
    result: inp.ResultIn,
    event: ev.ResultReceived | ev.Retried,
    accepted: AcceptedPlan | None,
) -> Iterator[Situation]:
    assert run.submission is not None
    role, tenant, cost = task.role, run.submission.tenant, result.spent.cost / _MILLIONTHS
    if event.failure is not None:
        own = event.failure.reason in (CONVERSATION_MOVED, PLAN_FAILED)  # the run has a remedy of its own
        if not own and recovery_exhausted(run.recovered) is None:
            severity = event.failure.severity
            yield Situation(Trigger.ERROR, role, "", tenant, task.step_id, severity=severity, cost=cost)
    elif accepted is not None:
        assert run.plan is not None
        new = [step for step in accepted.plan.subtasks if not step.has_ended]
        confidence = min((step.confidence for step in new), default=1.0)
        cost = sum(step.estimated_cost_micro_usd for step in new) / _MILLIONTHS
        for trigger in (Trigger.REPLAN if run.plan.steps else Trigger.PLAN, Trigger.CONFIDENCE):
            yield Situation(trigger, role, "", tenant, confidence=confidence, cost=cost)
    else:
        step = run.plan.steps.get(task.step_id) if run.plan is not None else None
        marked = step is not None and step.checkpoint
        yield Situation(Trigger.CHECKPOINT, role, "", tenant, task.step_id, cost=cost, marked=marked)


def _text(
    run: RunState, task: Task, rule: InterceptionRule, failure: Failure | None, accepted: AcceptedPlan | None
) -> str:
    if failure is not None:
        instead = "plan" if _makes_plan(run, task) else "answer"
        return f"{task.label} failed: {failure.message}\nApprove another attempt, or modify: give the {instead}."
    if accepted is None:
        return f"Approve the answer of {task.label}?"
    again = f" (revision {run.plan.revision + 1})" if run.plan is not None and run.plan.steps else ""
    steps = [step for step in accepted.plan.subtasks if not step.has_ended]
    lines = [f"Approve the plan{again}: {accepted.plan.goal}"]
    lines += [accepted.reason] if accepted.reason else []
    lines += [f"  {step.id}{_executor(step)}: {step.description}" for step in steps[:MAX_SHOWN_STEPS]]
    if len(steps) > MAX_SHOWN_STEPS:
        lines.append(f"  and {len(steps) - MAX_SHOWN_STEPS} more")
    return "\n".join(lines)


def _executor(step: SubTask) -> str:
    """The role of a step, or the tool of one without a role, as in a plan of a process."""
    if step.role:
        return f" ({step.role})"
    return f" [{step.tool_name}]" if step.tool_name else ""


def modified_by_plan(run: RunState, task: Task) -> bool:
    """Returns whether a modification of the held result is a plan: it is a plan, or the failure to make one."""
    return task.held is not None and not task.held.breakpoint and _makes_plan(run, task)


def _makes_plan(run: RunState, task: Task) -> bool:
    return run.plan is not None and task.task_id in (run.plan.planner, run.plan.alignment)


def modification_refusal(run: RunState, task: Task, plan: Plan | None, *, is_answer: bool = False) -> Failure | None:
    """Returns why a modification cannot replace the plan that waits: INVALID_ARGUMENT, with its faults. None if it can,
    or if it is no plan. `is_answer` as in inputs.Respond."""
    if is_answer and _makes_plan(run, task):
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "at a breakpoint a planner's answer cannot be given")
    if not modified_by_plan(run, task):
        return None
    if plan is None:
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "the plan is missing")
    if faults := faults_of(run, plan):
        violations = tuple((step or "plan", description) for step, description in faults[:MAX_FAULTS])
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", faults[0][1], violations=violations)
    return None


def decided(
    run: RunState,
    task: Task,
    before: Sequence[ev.Event],
    given: ev.InputGiven,
    plan: Plan | None,
    result: Payload,
    *,
    is_answer: bool = False,
) -> list[ev.Event]:
    """Returns the events `before`, the answer, and the events that follow from it. `plan` or `result` replaces the held
    result, if the decision is to modify; at a breakpoint only if it `is_answer`, else it is the input of the task."""
    held, events = task.held, [*before, given]
    if held is None:
        return events
    if given.decision == Decision.REJECT:
        return _rejected(run, task, events, given, held)
    modified = given.decision == Decision.MODIFY
    if (held.failure is not None and not modified) or (held.breakpoint and not is_answer):
        return events  # the next attempt is made
    accepted: AcceptedPlan | None = None
    chosen = plan if modified and plan is not None and _makes_plan(run, task) else held.plan
    if chosen is not None:
        verdict = reaccepted(run, chosen, () if modified else held.changes)
        if isinstance(verdict, Failure):
            return fail(run, task, events, verdict)
        accepted = replace(verdict, reason=held.reason)
    replaced = modified and held.plan is None
    received = ev.ResultReceived(
        task.task_id,
        held.attempt,
        held.role,
        TaskState.COMPLETED,
        result if replaced else held.payload,
        None,
        held.publish or held.failure is not None,
        NOTHING if replaced else held.spent,
        winner="" if replaced else held.winner,
    )
    events.append(received)
    if not replaced:
        events += [ev.ItemPublished(task.task_id, held.attempt, held.role, 0, item) for item in held.items]
    return end_with_result(run, task, events, received, accepted)


def _rejected(
    run: RunState, task: Task, events: list[ev.Event], given: ev.InputGiven, held: ev.ApprovalRequested
) -> list[ev.Event]:
    """A rejection fails the run."""
    what = "the plan" if held.plan is not None else f"{task.label}"
    by = f"by {given.identity}" if given.identity else "because no answer came in time"
    reason = f"{what} was rejected {by} (rule {held.terms.rule})"
    metadata = (("identity", given.identity), ("input_id", given.input_id), ("rule", held.terms.rule))
    failure = Failure("FAILED_PRECONDITION", APPROVAL_REJECTED, reason, metadata)
    return then_end(run, [*events, ending(failure, given.identity)], set(), TaskState.FAILED, failure)
