"""The report of `archon show`: the facts of a run, the tree of its tasks, and its questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from archon.api.common.v1 import common_pb2, failure_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.learning import CHOICES_KEY, LearnedChoices, read_choices
from archon.plain_text import counted, duration
from archon.run_view import RunView, TaskState, Usage, convert
from archon.wire import to_seconds
from archon_services.cli.render.decision_text import bid_text, winning_bid
from archon_services.cli.render.incidents import incident_text
from archon_services.cli.render.plan_document import estimate_of
from archon_services.cli.render.plan_text import about, took_pieces
from archon_services.cli.render.questions import PendingQuestion, pending_question
from archon_services.cli.render.run_text import clock_text, degraded_text, stop_reasons, task_notes, waiting_text
from archon_services.cli.render.task_tree import children_of, in_order
from archon_services.reports.state_names import state_name, task_label, task_state_name
from archon_services.reports.texts import cost_text, local_time, one_line, tokens_text

STEP_SHOWN: Final = 70
"""Characters of the description of a step; `archon plan show` prints more of it."""

GOAL_SHOWN: Final = 240
"""Characters of the goal; `archon show --json` prints all of it."""

COMMENT_SHOWN: Final = 120
"""Characters of the comment of a rating; `archon show --json` prints all of it."""

Line = tuple[str, str]
"""A text, and the state whose colour it has; empty for none."""


@dataclass(slots=True)
class Calls:
    """The calls of an attempt that have been recorded so far, and their usage."""

    models: int = 0
    tools: int = 0
    usage: Usage = field(default_factory=Usage)

    def add(self, record: run_pb2.RunRecord) -> None:
        """Counts a call."""
        if record.kind == "model":
            self.models += 1
            self.usage += Usage.from_proto(record.usage)
        else:
            self.tools += 1


def run_report(
    run: run_pb2.Run,
    now: float,
    view: RunView | None = None,
    flag: str = "",
    calls: Mapping[tuple[str, int], Calls] | None = None,
) -> Iterator[Line]:
    """Yields the lines of the report.

    `now` is in seconds since the epoch; `view` has the events of the run, which hold more than the run itself; `flag`
    is the option that suggested commands need to reach the orchestrator; `calls` are the calls of the attempts in
    progress, by task id and number, if they were read.
    """
    view = view or RunView()
    yield f"run {run.run_id}  {state_name(run.state)}", state_name(run.state)
    began = to_seconds(run.create_time)
    if run.HasField("end_time"):
        age = f"ended after {duration(max(0.0, to_seconds(run.end_time) - began))}"
    else:
        age = f"{duration(max(0.0, now - began))} ago"
    facts = [
        ("goal", goal_text(run.goal)),
        ("strategy", convert.strategy_name(run.strategy)),
        ("submitted", f"{local_time(began)}, {age}"),
        ("by", f"{run.identity}, through {run.actor}" if run.actor else run.identity),
        ("clock", _clock(run, now, view)),
        ("session", "  ".join(filter(None, (run.session_id, degraded_text(view))))),
        ("plan", _plan_text(run.plan)),
        ("tokens", _usage_text(run.usage)),
        ("forked from", run.parent_run_id),
        ("learned", choices_text(read_choices(run.metadata))),
        *((f"metadata {key}", value) for key, value in sorted(run.metadata.items()) if key != CHOICES_KEY),
        ("details", "removed by retention: only this summary is left" if run.details_removed else ""),
    ]
    for name, value in facts:
        if value:
            yield f"  {name:<10}  {value}", ""
    if run.failure.message:
        yield f"  {'failure':<10}  {run.failure.message}", "failed"
        if kind := _kind_text(run.failure):
            yield f"  {'kind':<10}  {kind}", "failed"
    for rating in run.ratings:
        yield f"  {'rated':<10}  {rating_text(rating)}", ""
    for mark in run.marks:
        yield f"  {'marked':<10}  by {mark.identity}{f': {reason}' if (reason := _reason(mark)) else ''}", ""
    yield from _task_lines(run, now, view, calls or {})
    for question in run.questions:
        yield from _question_lines(pending_question(run.run_id, question), flag)


def goal_text(goal: Sequence[common_pb2.Part], length: int = GOAL_SHOWN) -> str:
    """Returns the goal on one line, cut to `length`; parts that are not text by file name or media type."""
    pieces = []
    for part in goal:
        name = f"[{part.filename}]" if part.filename else ""
        text = " ".join(part.text.split()) if part.WhichOneof("content") == "text" else ""
        pieces.append(f"{name} {text}".strip() or f"[{part.media_type or 'content'}]")
    line = " ".join(pieces)
    return line if len(line) <= length else line[:length].rstrip() + "…"


def choices_text(choices: LearnedChoices) -> str:
    """Returns the prompt variants that the learned weights chose, with the version of the weights."""
    chosen = [f"{role} by the prompt {choice.variant}" for role, choice in choices.roles.items() if choice.variant]
    return f"{', '.join(chosen)} (version {choices.version} of the weights)" if chosen else ""


def _reason(mark: run_pb2.Mark) -> str:
    return one_line(mark.reason, COMMENT_SHOWN)


def rating_text(rating: run_pb2.Rating) -> str:
    """Returns a rating on one line: the stars, the rater and the comment."""
    comment = one_line(rating.comment, COMMENT_SHOWN)
    return f"{rating.stars} of 5 by {rating.identity}{f': {comment}' if comment else ''}"


def _clock(run: run_pb2.Run, now: float, view: RunView) -> str:
    """Says why the clock is stopped, and for how long if `view` has the events."""
    if text := clock_text(view, now):
        return text
    reason = stop_reasons(waiting=bool(run.questions), paused=run.paused)
    return f"{reason}; clock stopped" if reason else ""


def _question_lines(question: PendingQuestion, flag: str) -> Iterator[Line]:
    yield "", ""
    yield f"{question.role} asks:", TaskState.INPUT_REQUIRED
    yield from ((f"  {line}", "") for line in question.lines())
    yield f"To answer: {question.command(flag)}", ""


def _task_lines(run: run_pb2.Run, now: float, view: RunView, calls: Mapping[tuple[str, int], Calls]) -> Iterator[Line]:
    width = max((4 * depth + len(_label(task, view)) for depth, task in in_order(run.tasks)), default=0)
    children = children_of(run.tasks)

    def branch(tasks: Sequence[run_pb2.Task], indent: str) -> Iterator[Line]:
        for number, task in enumerate(tasks, start=1):
            last = number == len(tasks)
            pieces = _task_pieces(run, task, now, view, calls.get((task.task_id, task.attempt), Calls()))
            text = "  ".join([f"{_label(task, view):<{width - len(indent)}}", *pieces])
            yield f"{indent}{'└──' if last else '├──'} {text}", state_name(task.state)
            inner = indent + ("    " if last else "│   ")
            delegated = children.get(task.task_id, []) if task.task_id else []
            margin = inner + ("│ " if delegated else "  ")
            yield from ((margin + text, state) for text, state in _note_lines(run, task, view))
            yield from branch(delegated, inner)

    yield from branch(children.get("", []), "")


def _label(task: run_pb2.Task, view: RunView) -> str:
    """The name of a task; with the events of the run also the purpose of the planner's tasks."""
    task_view = view.tasks.get(task.task_id)
    return task_view.label if task_view is not None and task_view.purpose else task_label(task)


def _plan_text(plan: plan_pb2.Plan) -> str:
    """Returns the number of the plan, its size and its estimates; empty if there is none."""
    if not plan.steps:
        return ""
    estimate = estimate_of(plan)
    pieces = [f"{plan.revision}, {counted(len(plan.steps), 'step')}"]
    if estimate.span:
        pieces.append(about(estimate.span))
    if cost := cost_text(estimate.cost_micro_usd):
        pieces.append(f"~{cost}")
    if plan.changes:
        pieces.append(counted(len(plan.changes), "repair"))
    return ", ".join(pieces)


def _kind_text(failure: failure_pb2.Failure) -> str:
    """Kind and severity of a failure; empty if an earlier version recorded it."""
    if not failure.kind or failure.severity not in failure_pb2.Severity.values():
        return failure.kind
    severity = failure_pb2.Severity.Name(failure.severity).removeprefix("SEVERITY_").lower()
    return f"{failure.kind}, {severity} severity"


def _step_of(task: run_pb2.Task, plan: plan_pb2.Plan) -> plan_pb2.PlanStep | None:
    """Returns the step of the plan in force that the task executes."""
    return next((step for step in plan.steps if step.task_id == task.task_id), None) if task.step_id else None


def _note_lines(run: run_pb2.Run, task: run_pb2.Task, view: RunView) -> Iterator[Line]:
    if (step := _step_of(task, run.plan)) is not None:
        yield one_line(step.description or f"call {step.tool_name}", STEP_SHOWN), ""
    task_view = view.tasks.get(task.task_id)
    notes = list(task_notes(task_view)) if task_view is not None else []
    if task.failure.message:
        yield task.failure.message, "failed"
        if incident := incident_text(task.failure):
            yield incident, "failed"
    yield from ((note, "") for note in notes if note != task.failure.message)


def _task_pieces(run: run_pb2.Run, task: run_pb2.Task, now: float, view: RunView, calls: Calls) -> Iterator[str]:
    yield task_state_name(task)
    if task.resolution.reason:
        yield task.resolution.reason
    task_view = view.tasks.get(task.task_id)
    if task.waiting_for:
        yield f"waiting for {task.waiting_for}"
    elif task_view is not None and task_view.state == "working" and (waiting := waiting_text(view, task_view)):
        yield waiting
    needs_input = task.state == common_pb2.TASK_STATE_INPUT_REQUIRED
    if task.instance_id and not needs_input:
        yield f"on {task.instance_id}"
    if task.attempt and (task.attempt > 1 or _step_of(task, run.plan) is None):
        yield f"attempt {task.attempt}"
    if (step := _step_of(task, run.plan)) is not None and not needs_input:
        yield from took_pieces(step, task, now)
        if (bid := winning_bid(run, step)) is not None:
            yield f"of a bid of {bid_text(bid)}"
    elif task.HasField("start_time") and not needs_input:
        end = to_seconds(task.end_time) if task.HasField("end_time") else now
        yield duration(max(0.0, end - to_seconds(task.start_time)))
    yield from _result_pieces(run, task, view, calls)


def _result_pieces(run: run_pb2.Run, task: run_pb2.Task, view: RunView, calls: Calls) -> Iterator[str]:
    task_view = view.tasks.get(task.task_id)
    if task_view is not None and task_view.checkpoint_bytes and not task_view.final:
        yield f"checkpoint of {task_view.checkpoint_bytes:,} bytes"
    if usage := _usage_text(task.usage):
        yield f"tokens {usage}"
    if so_far := _calls_text(calls):
        yield so_far
    if task.memory_version:
        yield f"memory v{task.memory_version}"
    if task_view is not None and (child := task_view.child_run) is not None:
        yield f"run {child.run_id} of the mesh {child.mesh}"
    labels = {other.task_id: task_label(other) for other in run.tasks} if task.predecessors else {}
    upstream = [labels.get(task_id, task_id) for task_id in task.predecessors]
    if not upstream and run.strategy != run_pb2.STRATEGY_AGENT and not task.parent_task_id:
        upstream = [edge.upstream for edge in run.edges if edge.downstream == task.role]
    if upstream:
        yield f"after {', '.join(upstream)}"


def _calls_text(calls: Calls) -> str:
    """Counts the calls of an attempt in progress so far; empty if there are none."""
    counts = [(calls.models, "model call"), (calls.tools, "tool call")]
    if not (made := [counted(count, noun) for count, noun in counts if count]):
        return ""
    tokens = _usage_text(calls.usage)
    return f"{' and '.join(made)} so far{f', tokens {tokens}' if tokens else ''}"


def _usage_text(usage: common_pb2.Usage | Usage) -> str:
    if not usage.input_tokens and not usage.output_tokens:
        return ""
    return ", ".join(filter(None, (tokens_text(usage), cost_text(usage.cost_micro_usd))))
