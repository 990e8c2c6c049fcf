"""How a task of a run stands, and what an event says, in a few words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.context import ANONYMOUS
from archon_services.cli.render.output import duration
from archon_services.cli.render.questions import shortened, words_of
from archon_services.cli.render.run_view import ASKING, RunView, TaskView

_QUESTION_SHOWN: Final = 400
"""Characters of a question on a line; `archon show` and `archon respond` have all of it."""


def task_words(view: RunView, task: TaskView) -> str:
    """State, instance, time, tokens: what is known."""
    waiting = view.waits_for(task)
    parts = [waiting or task.state]
    if task.instance and task.state not in ("submitted", ASKING):
        parts.append(f"on {task.instance}")
    if task.calls and not task.final:
        parts.append(f"calls {' and '.join(dict.fromkeys(task.calls.values()))}")
    if task.attempt > 1:
        parts.append(f"attempt {task.attempt}")
    if task.final and task.began:
        parts.append(duration(max(0.0, task.ended - task.began)))
    if task.tokens:
        parts.append(f"{task.tokens} tokens")
    if task.final and task.given:
        parts.append(f"knew {', '.join(task.given)}")
    if task.version:
        parts.append(f"memory v{task.version}")
    if task.saved and not task.final:
        parts.append(f"checkpoint of {task.saved:,} bytes")
    return "  ".join(parts)


def remarks(task: TaskView) -> Iterator[str]:
    """What isn't as usual with it."""
    yield from task.notes
    if task.stopping and not task.final:
        yield f"is being stopped: {task.stopping}"
    if task.remark:
        yield task.remark


def news(view: RunView, event: run_pb2.RunEvent, *, asked_before: bool) -> str:
    """What an event says of its task, in the words of one line; empty where it is no news. `view` knows the event."""
    task = view.tasks[event.task.task_id]
    match event.WhichOneof("event"):
        case "delegated":
            return _delegated(event.delegated, asked_before=asked_before)
        case "delegation_cancelled":
            return task.notes[-1]
        case "budget_reserved":
            more = budget_words(event.budget_reserved.budget)
            return f"gets {more} more of the budget" if more else "wanted more of the budget than is left"
        case "input_requested":
            return f"asks a person: {shortened(words_of(event.input_requested.prompt), _QUESTION_SHOWN)}"
        case "input_given":
            given = event.input_given
            return f"is answered{_by(given.identity)}: {shortened(words_of(given.parts))}"
        case "checkpoint":
            return f"leaves a checkpoint of {task.saved:,} bytes"
        case "tool_event":
            return _tool(event.tool_event)
        case "task_state" if event.task_state.stopping:
            return f"is being stopped: {task.stopping}"
        case "task_state" | "dispatched" | "result" | "published" | "lost" | "rejected" | "retry":
            return "  ".join(filter(None, (task_words(view, task), task.remark)))
    return ""


def run_news(view: RunView, event: run_pb2.RunEvent) -> str:
    """What an event says of the run itself; empty where it is no news. `view` knows the event."""
    match event.WhichOneof("event"):
        case "cancel_requested":
            return f"is being cancelled: {view.cancelling}"
        case "paused":
            return f"is paused{_by(event.paused.identity)}"
        case "resumed":
            return f"goes on{_by(event.resumed.identity)}"
        case "submitted":
            return ", ".join(filter(None, (view.state, lacking(view))))
        case "run_state" if view.ended:
            return view.state
    return ""


def standing(view: RunView, now: float) -> str:
    """That its clock stands at `now`, in wall seconds, and why; or how long it did. Empty where it never stood."""
    stood = view.stood(now)
    why = [*(["waits for a person"] if view.questions else []), *(["is paused"] if view.paused else [])]
    if why and not view.ended:
        return f"{' and '.join(why)}; its clock stands, {duration(stood)} so far"
    return f"stood still for {duration(stood)}" if stood else ""


def lacking(view: RunView) -> str:
    """What the run went on without; empty: nothing."""
    return f"without what its session remembers: {view.lacking}" if view.lacking else ""


def _by(identity: str) -> str:
    return f" by {identity}" if identity and identity != ANONYMOUS else ""


def _delegated(what: run_pb2.Delegated, *, asked_before: bool) -> str:
    if what.HasField("failure"):
        return f"may not delegate to {what.role}: {what.failure.message}"
    if asked_before:
        return f"delegates to {what.role} what it had been asked before: remembered"
    asked = shortened(" ".join(part.text for part in what.input))
    return f"delegates to {what.role}" + (f": {asked}" if asked else "")


def _tool(what: run_pb2.ToolActivity) -> str:
    if what.arguments_json or not what.result_json:
        return f"calls {what.tool_name} {shortened(what.arguments_json)}".rstrip()
    verb = "failed" if what.failed else "answered"
    return f"{what.tool_name} {verb}: {shortened(what.result_json)}"


def budget_words(budget: common_pb2.Budget) -> str:
    """As `2,000 tokens and $0.05`; empty where it says nothing."""
    tokens = f"{budget.max_tokens:,} tokens" if budget.max_tokens else ""
    cost = f"${budget.max_cost_micro_usd / 1e6:,.6f}".rstrip("0").rstrip(".") if budget.max_cost_micro_usd else ""
    return " and ".join(filter(None, (tokens, cost)))
