"""Short texts for the state of a run and its tasks, and for their events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.context import ANONYMOUS
from archon.wire import policy_from_proto
from archon_services.cli.render.output import cost_text, counted, duration, one_line
from archon_services.cli.render.questions import decision_text, parts_text, timed_out_text, truncate
from archon_services.cli.render.run_view import (
    INPUT_REQUIRED,
    INSUFFICIENT_BUDGET,
    RunView,
    TaskView,
    is_tool_call,
    rejected_delegation_text,
    repeated_delegation_text,
)

_QUESTION_SHOWN: Final = 400
"""Characters of a question in an event line; `archon show` and `archon respond` print all of it."""


_STEP_SHOWN: Final = 60
"""Characters of a step's description beside its state."""


def task_text(view: RunView, task: TaskView) -> str:
    """Returns state, duration, tokens, cost and instance of a task, as far as they are known."""
    pieces = ["reused" if task.reused else view.waiting_for(task) or task.state]
    dispatched = bool(task.instance) and task.state not in ("submitted", INPUT_REQUIRED)
    if dispatched and not task.final:
        pieces.append(f"on {task.instance}")
    if task.tool_calls and not task.final:
        pieces.append(f"calling {' and '.join(dict.fromkeys(task.tool_calls.values()))}")
    if task.attempt > 1:
        pieces.append(f"attempt {task.attempt}")
    if task.final and task.began:
        pieces.append(duration(max(0.0, task.ended - task.began)))
    if task.tokens:
        pieces.append(f"{task.tokens} tokens")
    if cost := cost_text(task.usage.cost_micro_usd):
        pieces.append(cost)
    if task.version:
        pieces.append(f"memory v{task.version}")
    if dispatched and task.final:
        pieces.append(f"on {task.instance}")
    if task.final and task.context:
        pieces.append(f"context: {', '.join(task.context)}")
    if task.checkpoint_bytes and not task.final:
        pieces.append(f"checkpoint of {task.checkpoint_bytes:,} bytes")
    if task.step is not None and not task.final:
        pieces.append(one_line(task.step.description or f"call {task.step.tool_name}", _STEP_SHOWN))
    return "  ".join(pieces)


def task_notes(task: TaskView) -> Iterator[str]:
    """Yields exceptional events of a task: failures, rejected delegations, answered questions."""
    yield from task.notes
    if task.stop_reason and not task.final:
        yield f"stopping: {task.stop_reason}"
    if task.last_failure:
        yield task.last_failure


def task_event_text(view: RunView, event: run_pb2.RunEvent, *, repeated: bool) -> str:
    """Describes an event of a task in one line; empty if it is not worth a line.

    `view` has the event applied; `repeated` is `RunView.is_repeated_delegation` from before.
    """
    task = view.tasks[event.task.task_id]
    match event.WhichOneof("event"):
        case "delegated":
            return _delegated_text(event.delegated, repeated=repeated)
        case "delegation_cancelled":
            return task.notes[-1]
        case "budget_reserved":
            budget = budget_text(event.budget_reserved.budget)
            return f"reserved another {budget} of the budget" if budget else INSUFFICIENT_BUDGET
        case "input_requested":
            return f"question: {truncate(parts_text(event.input_requested.prompt), _QUESTION_SHOWN)}"
        case "approval_requested":
            return f"approval: {truncate(parts_text(event.approval_requested.prompt), _QUESTION_SHOWN)}"
        case "question_timed_out":
            return timed_out_text(event.question_timed_out)
        case "input_given":
            return f"answered{_by(event.input_given.identity)}: {decision_text(event.input_given)}"
        case "checkpoint":
            return f"saved a checkpoint of {task.checkpoint_bytes:,} bytes"
        case "tool_event":
            return _tool_text(event.tool_event)
        case "task_state" if event.task_state.stopping:
            return f"stopping: {task.stop_reason}"
        case "item_published":
            policy = policy_from_proto(event.item_published.policy)
            return f"published an item ({policy.replace('_', ' ')})"
        case "published":
            return f"published to shared memory, v{task.version}"
        case "task_state" | "dispatched" | "result" | "lost" | "rejected" | "retry":
            return "  ".join(filter(None, (task_text(view, task), task.last_failure)))
    return ""


def run_event_text(view: RunView, event: run_pb2.RunEvent) -> str:
    """Describes an event of the run itself; empty if it is not worth a line. `view` has the event applied."""
    match event.WhichOneof("event"):
        case "cancel_requested":
            return f"cancelling: {view.cancel_reason}"
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
    return f"without session context: {view.session_context_failure}" if view.session_context_failure else ""


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


def _delegated_text(delegated: run_pb2.Delegated, *, repeated: bool) -> str:
    if delegated.HasField("failure"):
        return rejected_delegation_text(delegated)
    if repeated:
        return repeated_delegation_text(delegated)
    text = truncate(" ".join(part.text for part in delegated.input))
    return f"delegates to {delegated.role}" + (f": {text}" if text else "")


def _tool_text(activity: run_pb2.ToolActivity) -> str:
    if is_tool_call(activity):
        return f"calls {activity.tool_name} {truncate(activity.arguments_json)}".rstrip()
    verb = "failed" if activity.failed else "returned"
    return f"{activity.tool_name} {verb}: {truncate(activity.result_json)}"
