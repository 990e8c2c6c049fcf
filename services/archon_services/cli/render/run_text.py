"""Short texts for the state of a run and its tasks, and for their events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.context import ANONYMOUS
from archon.plain_text import counted, duration
from archon.run_view import Delegation, LastFailure, Outcome, Question, RunView, TaskState, TaskView, WaitKind
from archon.run_view.convert import is_tool_call
from archon.types import Message
from archon.wire import policy_from_proto
from archon_services.cli.render.decision_text import decision_lines, settled_text, verdict_lines
from archon_services.cli.render.message_text import content_text, receiver_text
from archon_services.cli.render.questions import decision_text, timed_out_text, truncate
from archon_services.reports.texts import INSUFFICIENT_BUDGET, cost_text, one_line

_QUESTION_SHOWN: Final = 400
"""Characters of a question in an event line; `archon show` and `archon respond` print all of it."""


_STEP_SHOWN: Final = 60
"""Characters of a step's description beside its state."""


def task_text(view: RunView, task: TaskView) -> str:
    """Returns state, duration, tokens, cost and instance of a task, as far as they are known."""
    attempt, usage = task.attempt, task.usage
    is_by_rule = task.resolution is not None and task.final and attempt is None
    taken = f"edited by {task.edited_by}" if task.edited_by else "reused" if task.reused else ""
    pieces = [taken or ("decided" if is_by_rule else waiting_text(view, task) or task.state)]
    if task.resolution is not None:
        pieces.append(task.resolution.reason)
    waits = task.state in (TaskState.SUBMITTED, TaskState.INPUT_REQUIRED)
    if task.verdict is not None:
        pieces.append(settled_text(task.verdict))
    instance = attempt.instance_id if attempt is not None and not waits else ""
    if instance and not task.final:
        pieces.append(f"on {instance}")
    if task.tool_calls and not task.final:
        pieces.append(f"calling {' and '.join(dict.fromkeys(task.tool_calls.values()))}")
    if attempt is not None and attempt.number > 1:
        pieces.append(f"attempt {attempt.number}")
    if task.final and attempt is not None:
        pieces.append(duration(max(0.0, task.ended - attempt.started)))
    if usage.output_tokens or task.written:
        tokens = usage.output_tokens or -(-task.written // 4)
        pieces.append(f"{'' if usage.output_tokens and not usage.estimated else '~'}{tokens:,} tokens")
    if cost := cost_text(usage.cost_micro_usd):
        pieces.append(cost)
    if task.version:
        pieces.append(f"memory v{task.version}")
    if instance and task.final:
        pieces.append(f"on {instance}")
    if task.final and attempt is not None and attempt.given:
        roles = (f"{role} (session)" if earlier else role for role, earlier in attempt.given)
        pieces.append(f"context: {', '.join(roles)}")
    if task.checkpoint_bytes and not task.final:
        pieces.append(f"checkpoint of {task.checkpoint_bytes:,} bytes")
    if task.step is not None and not task.final:
        pieces.append(one_line(task.step.description or f"call {task.step.tool_name}", _STEP_SHOWN))
    return "  ".join(pieces)


def waiting_text(view: RunView, task: TaskView) -> str:
    """Returns the cause that blocks the task, starting with "waiting for"; empty if nothing does."""
    if (wait := view.waiting_for(task)) is None:
        return ""
    texts = {
        WaitKind.PERSON: "waiting for input",
        WaitKind.RESUME: "waiting for the run to be resumed",
        WaitKind.INSTANCE: f"waiting for an instance of {task.role}",
    }
    return texts.get(wait.kind, f"waiting for {' and '.join(wait.names)}")


def task_notes(task: TaskView) -> Iterator[str]:
    """Yields exceptional events of a task: failures, rejected delegations, answered questions."""
    if task.resolution is not None:
        yield from decision_lines(task.resolution)
    if task.verdict is not None:
        yield from verdict_lines(task.verdict)
    yield from map(_note_text, task.notes)
    if task.stopping is not None and not task.final:
        yield _stopping_text(task)
    if task.last_failure is not None:
        yield failure_text(task.last_failure)


def failure_text(last: LastFailure) -> str:
    """Describes the failure of a task or of its last attempt."""
    message = last.failure.message
    texts = {
        Outcome.LOST: f"{last.instance_id} lost: {message}",
        Outcome.GIVEN_BACK: f"given back: {message}",
        Outcome.REJECTED: f"rejected by {last.instance_id}: {message}",
        Outcome.RETRIED: f"failed, retry in {duration(last.retry_delay)}: {message}",
        Outcome.WORKING: INSUFFICIENT_BUDGET,
    }
    return texts.get(last.outcome, message)


def task_event_text(view: RunView, event: run_pb2.RunEvent) -> str:
    """Describes an event of a task in one line; empty if it is not worth a line. `view` has the event applied."""
    task = view.tasks[event.task.task_id]
    match event.WhichOneof("event"):
        case "delegated":
            return _delegated_text(task, event.delegated)
        case "delegation_cancelled" | "question_timed_out":
            return _note_text(task.notes[-1])
        case "budget_reserved":
            budget = budget_text(event.budget_reserved.budget)
            return f"reserved another {budget} of the budget" if budget else INSUFFICIENT_BUDGET
        case "input_requested" | "approval_requested" as kind:
            noun = "approval" if kind == "approval_requested" else "question"
            return f"{noun}: {truncate(task.questions[-1].text, _QUESTION_SHOWN)}"
        case "input_given" if isinstance(question := task.notes[-1], Question):
            return f"answered{_by(question.identity)}: {decision_text(question)}"
        case "checkpoint":
            return f"saved a checkpoint of {task.checkpoint_bytes:,} bytes"
        case "tool_event":
            return _tool_text(event.tool_event)
        case "task_state" if event.task_state.stopping:
            return _stopping_text(task)
        case "item_published":
            policy = policy_from_proto(event.item_published.policy)
            return f"published an item ({policy.replace('_', ' ')})"
        case "message_sent":
            return _message_text(view, event.message_sent)
        case "published":
            return f"published to shared memory, v{task.version}"
        case "task_state" | "dispatched" | "result" | "lost" | "rejected" | "retry":
            failure = failure_text(task.last_failure) if task.last_failure is not None else ""
            return "  ".join(filter(None, (task_text(view, task), failure)))
    return ""


def run_event_text(view: RunView, event: run_pb2.RunEvent) -> str:
    """Describes an event of the run itself; empty if it is not worth a line. `view` has the event applied."""
    match event.WhichOneof("event"):
        case "cancel_requested":
            return f"cancelling: {event.cancel_requested.reason or 'no reason given'}"
        case "paused":
            return f"paused{_by(event.paused.identity)}"
        case "resumed":
            return f"resumed{_by(event.resumed.identity)}"
        case "submitted":
            return " ".join(filter(None, (view.state, degraded_text(view))))
        case "planned":
            return _planned_text(event.planned)
        case "run_state" if view.ended:
            return view.state
    return ""


def clock_text(view: RunView, now: float) -> str:
    """Says why the run's clock is stopped, and for how long it has been in all; empty if it never was."""
    seconds = view.stopped_for(now)
    reason = stop_reasons(waiting=bool(view.questions), paused=view.paused)
    if reason and not view.ended:
        return f"{reason}; clock stopped for {duration(seconds)}"
    return f"clock was stopped for {duration(seconds)}" if seconds else ""


def stop_reasons(*, waiting: bool, paused: bool) -> str:
    """Says why a clock is stopped; empty if it runs."""
    return ", ".join([*(["waiting for input"] if waiting else []), *(["paused"] if paused else [])])


def degraded_text(view: RunView) -> str:
    """Says that the run continues without its session context, and why; empty if it has it."""
    failure = view.session_context_failure
    return f"without session context: {failure.message}" if failure is not None else ""


def budget_text(budget: common_pb2.Budget) -> str:
    """Formats a budget as `2,000 tokens and $0.05`; empty if it has no bound."""
    tokens = f"{budget.max_tokens:,} tokens" if budget.max_tokens else ""
    calls = counted(budget.max_model_calls, "model call") if budget.max_model_calls else ""
    return " and ".join(filter(None, (tokens, cost_text(budget.max_cost_micro_usd), calls)))


def _by(identity: str) -> str:
    return f" by {identity}" if identity and identity != ANONYMOUS else ""


def _planned_text(planned: run_pb2.Planned) -> str:
    plan = planned.plan
    replacing = f", replaces plan {plan.revision - 1}" if plan.revision > 1 else ""
    verb = f"edited{_by(planned.identity)}" if planned.identity else f"made{replacing}"
    steps = "1 step" if len(plan.steps) == 1 else f"{len(plan.steps):,} steps"
    changes = f", repaired: {truncate('; '.join(plan.changes))}" if plan.changes else ""
    reason = f", because {truncate(planned.reason)}" if planned.reason else ""
    return f"plan {plan.revision} {verb}{reason}: {steps}{changes}"


def _note_text(note: Question | Delegation) -> str:
    """Describes a question that was answered or timed out, or a delegation that was refused, repeated or cancelled."""
    if isinstance(note, Question):
        if note.answer is None:
            return timed_out_text(note)
        question = f"question: {truncate(note.text)}  " if note.asked else ""
        return f"{question}answer: {decision_text(note)}"
    if note.cancelled:
        return f"delegation to {note.role} cancelled" if note.child_task_id else "delegation cancelled"
    if note.refusal is not None:
        return f"delegation to {note.role} rejected: {note.refusal.message}"
    return f"delegates to {note.role} again: reuses the existing task"


def _stopping_text(task: TaskView) -> str:
    reason = task.stopping.message if task.stopping is not None else ""
    return f"stopping: {reason or 'no longer needed'}"


def _delegated_text(task: TaskView, delegated: run_pb2.Delegated) -> str:
    delegation = task.attempt.delegations[-1] if task.attempt is not None and task.attempt.delegations else None
    if delegation is not None and (delegation.refusal is not None or delegation.repeated):
        return _note_text(delegation)
    text = truncate(" ".join(part.text for part in delegated.input))
    return f"delegates to {delegated.role}" + (f": {text}" if text else "")


def _message_text(view: RunView, sent: run_pb2.MessageSent) -> str:
    """Describes a message; empty if an earlier attempt has sent it."""
    if sent.first_seq:
        return ""
    message = Message.from_proto(sent.message)
    refused = f"  refused: {sent.failure.message}" if sent.HasField("failure") else ""
    return f"{message.message_type} to {receiver_text(view, message)}: {truncate(content_text(message))}{refused}"


def _tool_text(activity: run_pb2.ToolActivity) -> str:
    if is_tool_call(activity):
        return f"calls {activity.tool_name} {truncate(activity.arguments_json)}".rstrip()
    verb = "failed" if activity.failed else "returned"
    return f"{activity.tool_name} {verb}: {truncate(activity.result_json)}"
