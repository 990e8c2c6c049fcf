"""The lines of the debugger: an event, the state of the run, the task as it was sent, its memory, calls and frames."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.plain_text import counted, duration, iso_time
from archon.run_view import RunView, TaskState
from archon.types import RunBreakpoint, RunQuestion, RunRecord
from archon.wire import described, to_seconds
from archon_mesh.explain.event_text import event_text
from archon_services.cli.render.run_text import clock_text, task_notes, task_text
from archon_services.cli.render.task_tree import in_order
from archon_services.debugging import FrameView, MemoryRead, Stepper
from archon_services.reports.texts import strip_controls

WIDTH: Final = 80
MAX_NAMED: Final = 4
"""Tasks that the line about the run names."""

MAX_TASKS: Final = 200
"""Tasks that `state` lists, the newest ones."""

MAX_QUOTED: Final = 2_000
"""Characters of a text that is shown within others."""


def event_lines(stepper: Stepper) -> Iterator[str]:
    """Yields an event, with its number, its time in UTC and a sentence, and the state of the run after it."""
    event, view = stepper.event, stepper.view
    task = view.tasks.get(event.task_id)
    number = event.task.attempt if event.task is not None else 0
    subject = "run" if task is None else f"{task.label} #{number}" if number else task.label
    digits = len(str(stepper.run.last_seq))
    head = f"{event.seq:>{digits}}  {iso_time(event.time)[11:-1]}  "
    text = _short(f"{subject}: {event_text(view, event)}", stepper.run.run_id)
    yield from wrapped(text, head, " " * len(head))
    yield from wrapped(_summary(view), " " * (digits + 2))


def _summary(view: RunView) -> str:
    """Returns the state of the run: the tasks in progress by name, the others counted."""
    state = "paused" if view.paused else str(view.state)
    active = [task for task in view.tasks.values() if task.state in (TaskState.WORKING, TaskState.INPUT_REQUIRED)]
    named = [f"{task.label} {task.state}" for task in active[:MAX_NAMED]]
    if len(active) > MAX_NAMED:
        named.append(f"{len(active) - MAX_NAMED} more in progress")
    others = Counter(str(task.state) for task in view.tasks.values() if task not in active)
    counts = [f"{count} {name}" for name, count in sorted(others.items())]
    return f"run {state}: {', '.join([*named, *counts]) or 'no tasks'}"


def state_lines(view: RunView, now: float) -> Iterator[str]:
    """Yields the run, its tasks, each below the one that delegated it, and its open questions."""
    facts = [
        f"run {view.run_id} {'paused' if view.paused else view.state}",
        f"{duration(view.elapsed(now))} by its clock",
    ]
    if clock := clock_text(view, now):
        facts.append(clock)
    yield from wrapped(", ".join(facts), rest="  ")
    if view.failure is not None:
        yield from wrapped(f"failure: {view.failure.message}", "  ", "    ")
    tasks = list(in_order(view.tasks.values()))
    if len(tasks) > MAX_TASKS:
        yield f"  ({len(tasks) - MAX_TASKS:,} earlier tasks are left out)"
    for depth, task in tasks[-MAX_TASKS:]:
        indent = "  " * (depth + 1)
        yield from wrapped(f"{task.label}: {task_text(view, task).replace('  ', ', ')}", indent, f"{indent}  ")
        for note in task_notes(task):
            yield from wrapped(note, f"{indent}  ", f"{indent}    ")
    for question in view.questions:
        asked = _short(f"{question.role} asks ({question.input_id}): {question.text}", view.run_id)
        yield from wrapped(asked, "  ", "    ")
    if view.breakpoints:
        yield from wrapped(f"breakpoints: {', '.join(view.breakpoints)}", "  ", "    ")


def sent_lines(task: agent_pb2.AssignTask) -> Iterator[str]:
    """Yields the content of a task as it was sent: its input, the answers of other roles, and the state that earlier
    attempts left."""
    yield from _quoted("input", described(task.input))
    if task.expected_output:
        yield from _quoted("expected output", task.expected_output)
    for item in task.context:
        step = f" ({item.step_id})" if item.step_id else ""
        yield from _quoted(f"answer of {item.ref.role}{step}", described(item.parts))
    for name, text in (("awareness", task.awareness), ("arguments", task.tool_args_json), ("refusal", task.refusal)):
        if text:
            yield from _quoted(name, text)
    for answer in task.resume.answers:
        yield from _quoted(f"answer to {answer.input_id}", described(answer.parts))
    if task.resume.checkpoint:
        yield f"checkpoint: {len(task.resume.checkpoint):,} bytes"
    if task.HasField("remaining"):
        yield f"time left: {duration(to_seconds(task.remaining))}"
    for key, value in sorted(task.metadata.items()):
        yield from wrapped(f"metadata {key}: {value}", rest="  ")


def memory_lines(reads: Sequence[MemoryRead]) -> Iterator[str]:
    """Yields the answers that an attempt was sent, each with its version in the shared memory."""
    for read in reads:
        version = f"v{read.version}" if read.version else "not stored yet"
        stored = f", stored by event {read.stored_seq}" if read.stored_seq else ""
        source = f"event {read.seq}" if read.seq else "an earlier run of the session"
        yield from _quoted(f"{read.role}  {source}  {version}{stored}", read.text)


def call_lines(records: Sequence[RunRecord]) -> Iterator[str]:
    """Yields a line for each recorded call: its number in the run, its kind, its target and its duration."""
    for record in records:
        tokens = record.usage.input_tokens + record.usage.output_tokens
        spent = f"  {'~' if record.usage.estimated else ''}{counted(tokens, 'token')}" if tokens else ""
        yield f"{record.ordinal:>4}  {record.kind:<5}  {record.target}  {duration(record.duration)}{spent}"


def frame_lines(frames: Sequence[FrameView], run_id: str) -> Iterator[str]:
    """Yields a line for each frame: its event, its attempt, its direction, its name and its content."""
    digits = len(str(frames[-1].seq))
    names = max(len(frame.name) for frame in frames)
    for frame in frames:
        arrow = "->" if frame.direction == "sent" else "<-"
        head = f"{frame.seq:>{digits}}  #{frame.attempt} {arrow} {frame.name:<{names}}  "
        text = textwrap.shorten(_short(strip_controls(frame.text), run_id), 160, placeholder="…")
        yield from wrapped(text, head, " " * len(head))


def breakpoint_lines(breakpoints: Sequence[RunBreakpoint]) -> Iterator[str]:
    """Yields the breakpoints of a run, and below each the tasks that do not hold there, with the reason."""
    if not breakpoints:
        yield "no breakpoints"
    for each in breakpoints:
        yield each.text
        for task in each.unheld:
            text = f"{task.role} #{task.attempt} does not hold: {task.failure.message} ({task.failure.reason})"
            yield from wrapped(text, "  ", "    ")


def held_lines(held: Sequence[RunQuestion], run_id: str) -> Iterator[str]:
    """Yields the holds of a run: the task, and its next action."""
    for question in held:
        name = _short(question.input_id, run_id)
        yield from _quoted(f"held, {question.role} ({name})", question.text)


def help_lines(commands: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Yields the names, the arguments and a line of help of each command."""
    for names, arguments, text in commands:
        head = f"{names} {arguments}".rstrip()
        if len(head) <= 24:
            yield from wrapped(text, f"{head:<26}", " " * 26)
        else:
            yield head
            yield from wrapped(text, " " * 26, " " * 26)
    yield "An empty line repeats the last movement."


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Returns a text in lines of at most WIDTH characters, as far as its words are not longer."""
    line = " ".join(strip_controls(text).split())
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest or first,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def _short(text: str, run_id: str) -> str:
    """Returns a text with the ids of tasks and questions as they are within their run."""
    return text.replace(f"{run_id}.", "") if run_id else text


def _quoted(name: str, text: str) -> Iterator[str]:
    """Yields a name, and a text below it as it is, except that long lines are wrapped."""
    yield f"{name}:"
    shown = strip_controls(text)
    for line in shown[:MAX_QUOTED].splitlines():
        yield from wrapped(line, "  ", "  ") if len(line) > WIDTH - 2 else (f"  {line}".rstrip(),)
    if len(shown) > MAX_QUOTED:
        yield f"  … ({len(shown) - MAX_QUOTED:,} more characters; --json has all)"
