"""A run as it stands, in lines: what it is, then the tree of its tasks. Knows no terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.output import duration, moment
from archon_services.cli.render.questions import Asked, asked_of
from archon_services.cli.render.run_view import ASKING, RunView, state_name
from archon_services.cli.render.run_words import lacking, remarks, standing
from archon_services.cli.render.summary import tokens
from archon_services.cli.render.task_tree import children_of, in_order

GOAL_SHOWN: Final = 240
"""Characters of a goal; all of it is in `archon show --json`."""

Line = tuple[str, str]
"""A text, and the state whose colour it has; empty where it has none."""


def run_lines(run: run_pb2.Run, now: float, view: RunView | None = None, reach: str = "") -> Iterator[Line]:
    """The run at `now`, in wall seconds. `view` knows its events, for what only they tell; `reach` is what a command
    needs to find the orchestrator."""
    yield f"run {run.run_id}  {state_name(run.state)}", state_name(run.state)
    began = run.create_time.ToNanoseconds() / 1e9
    if run.HasField("end_time"):
        took = f"ended after {duration(max(0.0, run.end_time.ToNanoseconds() / 1e9 - began))}"
    else:
        took = f"{duration(max(0.0, now - began))} ago"
    facts = [
        ("goal", goal_text(run.goal)),
        ("strategy", strategy_name(run.strategy)),
        ("submitted", f"{moment(began)}, {took}"),
        ("clock", _clock(run, now, view or RunView())),
        ("session", "  ".join(filter(None, (run.session_id, lacking(view or RunView()))))),
        ("tokens", _spent(run.usage)),
        ("forked from", run.parent_run_id),
        *((f"metadata {key}", value) for key, value in sorted(run.metadata.items())),
    ]
    for name, value in facts:
        if value:
            yield f"  {name:<10}  {value}", ""
    if run.failure.message:
        yield f"  {'failure':<10}  {run.failure.message}", "failed"
    yield from _task_lines(run, now, view or RunView())
    for one in run.questions:
        yield from _question_lines(asked_of(run.run_id, one), reach)


def goal_text(goal: Sequence[common_pb2.Part], most: int = GOAL_SHOWN) -> str:
    """On one line, cut; what is no text is named."""
    pieces = []
    for part in goal:
        name = f"[{part.filename}]" if part.filename else ""
        text = " ".join(part.text.split()) if part.WhichOneof("content") == "text" else ""
        pieces.append(f"{name} {text}".strip() or f"[{part.media_type or 'content'}]")
    whole = " ".join(pieces)
    return whole if len(whole) <= most else whole[:most].rstrip() + "…"


def strategy_name(strategy: run_pb2.Strategy.ValueType) -> str:
    """As people read it; empty where there is none, or one that this version doesn't know."""
    if not strategy or strategy not in run_pb2.Strategy.values():
        return ""
    return run_pb2.Strategy.Name(strategy).removeprefix("STRATEGY_").lower()


def _clock(run: run_pb2.Run, now: float, view: RunView) -> str:
    """That it stands; only events tell for how long."""
    if said := standing(view, now):
        return said
    why = [*(["waits for a person"] if run.questions else []), *(["is paused"] if run.paused else [])]
    return f"{' and '.join(why)}; its clock stands" if why else ""


def _question_lines(asked: Asked, reach: str) -> Iterator[Line]:
    yield "", ""
    yield f"{asked.role} asks:", ASKING
    yield from ((f"  {line}", "") for line in asked.lines())
    yield f"To answer: {asked.command(reach)}", ""


def _task_lines(run: run_pb2.Run, now: float, view: RunView) -> Iterator[Line]:
    width = max((4 * depth + len(task.role) for depth, task in in_order(run.tasks)), default=0)
    below = children_of(run.tasks)

    def branch(tasks: Sequence[run_pb2.Task], indent: str) -> Iterator[Line]:
        for number, task in enumerate(tasks, start=1):
            last = number == len(tasks)
            said = "  ".join([f"{task.role:<{width - len(indent)}}", *_what(run, task, now, view)])
            yield f"{indent}{'└──' if last else '├──'} {said}", state_name(task.state)
            inner = indent + ("    " if last else "│   ")
            delegated = below.get(task.task_id, []) if task.task_id else []
            margin = inner + ("│ " if delegated else "  ")
            yield from ((margin + text, state) for text, state in _remarks(task, view))
            yield from branch(delegated, inner)

    yield from branch(below.get("", []), "")


def _remarks(task: run_pb2.Task, view: RunView) -> Iterator[Line]:
    known = view.tasks.get(task.task_id)
    told = list(remarks(known)) if known is not None else []
    if task.failure.message:
        yield task.failure.message, "failed"
    yield from ((text, "") for text in told if text != task.failure.message)


def _what(run: run_pb2.Run, task: run_pb2.Task, now: float, view: RunView) -> Iterator[str]:
    yield state_name(task.state)
    known = view.tasks.get(task.task_id)
    if task.waiting_for:
        yield f"waits for {task.waiting_for}"
    elif known is not None and known.state == "working" and (waits := view.waits_for(known)):
        yield waits
    asks = task.state == common_pb2.TASK_STATE_INPUT_REQUIRED
    if task.instance_id and not asks:
        yield f"on {task.instance_id}"
    if task.attempt:
        yield f"attempt {task.attempt}"
    if task.HasField("start_time") and not asks:
        end = task.end_time.ToNanoseconds() / 1e9 if task.HasField("end_time") else now
        yield duration(max(0.0, end - task.start_time.ToNanoseconds() / 1e9))
    if known is not None and known.saved and not known.final:
        yield f"checkpoint of {known.saved:,} bytes"
    if spent := _spent(task.usage):
        yield f"tokens {spent}"
    if task.memory_version:
        yield f"memory v{task.memory_version}"
    in_a_pipeline = run.strategy != run_pb2.STRATEGY_AGENT and not task.parent_task_id
    if in_a_pipeline and (upstream := [edge.upstream for edge in run.edges if edge.downstream == task.role]):
        yield f"after {', '.join(upstream)}"


def _spent(usage: common_pb2.Usage) -> str:
    if not usage.input_tokens and not usage.output_tokens:
        return ""
    return f"{tokens(usage.input_tokens, usage)} in, {tokens(usage.output_tokens, usage)} out"
