"""Views of a run in progress: a live tree, event lines, JSON, or questions only."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from typing_extensions import override

from archon.api.orchestrator.v1 import run_pb2
from archon.plain_text import duration
from archon.run_view import RunView, TaskState, TaskView
from archon.types import RunEvent
from archon.wire import to_seconds
from archon_services.cli.render.decision_text import decision_lines
from archon_services.cli.render.output import console, print_stderr, style_of
from archon_services.cli.render.questions import asked_question, pending_question
from archon_services.cli.render.run_text import (
    clock_text,
    degraded_text,
    run_event_text,
    task_event_text,
    task_notes,
    task_text,
)
from archon_services.cli.render.task_tree import children_of, in_order
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.text import Text
    from rich.tree import Tree

_MARKS: Final = {
    "completed": "✔",
    "failed": "✘",
    "rejected": "✘",
    "canceled": "⊘",
    "working": "●",
    "submitted": "○",
    "input required": "?",
}
_ROLE_WIDTH: Final = 14
_STEP_WIDTH: Final = 18
"""Width of a role with its step or the purpose of its planning."""

_TEXT_LINES: Final = 2
_NOTES: Final = 4
_QUESTION_LINES: Final = 12


class Screen(Protocol):
    """A view of one run."""

    def event(self, event: run_pb2.RunEvent) -> None:
        """Shows one more event."""

    def note(self, text: str) -> None:
        """Shows a message that is not an event."""

    def close(self) -> None:
        """Ends the view. Idempotent."""


class _NotesScreen:
    """Prints notes to standard error and ignores events."""

    def event(self, event: run_pb2.RunEvent) -> None:
        return

    def note(self, text: str) -> None:
        print_stderr(text)

    def close(self) -> None:
        return


class QuietScreen(_NotesScreen):
    """Prints nothing but questions, to standard error: without an answer the run would not continue."""

    def __init__(self, flag: str = "") -> None:
        """`flag` is the option that suggested commands need to reach the orchestrator."""
        self._flag, self._view = flag, RunView()

    @override
    def event(self, event: run_pb2.RunEvent) -> None:
        self._view.apply(RunEvent(event))
        if (question := asked_question(self._view, event)) is not None:
            lines = (f"{question.role} asks:", *question.lines(), f"To answer: {question.command(self._flag)}")
            for line in lines:
                print_stderr(strip_controls(line))


class JsonScreen(_NotesScreen):
    """Prints each event as one line of JSON, with the field names of the protobuf message."""

    @override
    def event(self, event: run_pb2.RunEvent) -> None:
        from google.protobuf import json_format

        line = json_format.MessageToJson(event, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class LineScreen(_NotesScreen):
    """Prints a line per change of a task or the run to standard error, delegated tasks indented."""

    def __init__(self, since: int = 0, flag: str = "") -> None:
        """Events with a sequence number below `since` are applied, but not printed. `flag` as in QuietScreen."""
        self._view = RunView()
        self._since = since
        self._flag = flag

    @override
    def event(self, event: run_pb2.RunEvent) -> None:
        self._view.apply(RunEvent(event))
        if event.seq < self._since:
            return
        view = self._view
        seconds = f"{max(0.0, to_seconds(event.time) - view.started):7.2f} s"
        task = view.tasks.get(event.task.task_id)
        if text := run_event_text(view, event):
            print_stderr(f"{seconds}  run {view.run_id} {strip_controls(text)}")
        elif task is not None and (text := task_event_text(view, event)):
            depth = next(depth for depth, node in in_order(view.tasks.values()) if node is task)
            width = _STEP_WIDTH if view.strategy == "plan" else _ROLE_WIDTH
            print_stderr(f"{seconds}  {'  ' * depth + task.label:<{width}} {strip_controls(text)}")
            has_decision = event.result.HasField("resolution") or event.retry.HasField("resolution")
            if has_decision and task.resolution is not None:
                for line in decision_lines(task.resolution):
                    print_stderr(f"{'':26}{strip_controls(line)}")
            if (question := asked_question(view, event)) is not None:
                for line in filter(None, (question.schema_line, f"To answer: {question.command(self._flag)}")):
                    print_stderr(f"{'':26}{strip_controls(line)}")


class TreeScreen(_NotesScreen):
    """Shows the run, its tasks, and the last lines of their texts or thinking as a live tree on the terminal."""

    def __init__(self, flag: str = "") -> None:
        """`flag` as in QuietScreen."""
        self._flag = flag
        self._view = RunView()
        self._notes: list[str] = []
        self._live: Live | None = None

    @override
    def event(self, event: run_pb2.RunEvent) -> None:
        self._view.apply(RunEvent(event))
        if self._live is None:
            from rich.live import Live

            self._live = Live(get_renderable=self._tree, console=console(), refresh_per_second=12)
            self._live.start()

    @override
    def note(self, text: str) -> None:
        if self._live is None:
            print_stderr(text)
        else:
            self._notes.append(text)

    @override
    def close(self) -> None:
        self._notes.clear()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _tree(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text
        from rich.tree import Tree

        tree = Tree(_head(self._view, time.time()), guide_style="dim")
        _add_tasks(tree, self._view, children_of(self._view.tasks.values()), "", self._flag)
        return Group(tree, *(Text(note, style="yellow") for note in self._notes))


def _head(view: RunView, now: float) -> Text:
    from rich.text import Text

    state = view.state
    head = Text.assemble(("run ", "bold"), (view.run_id[:12], "bold"), "  ", (state, style_of(state)), "  ")
    if view.started:
        head.append(duration(view.elapsed(now)), style="dim")
        if clock := clock_text(view, now):
            head.append(f"  {clock}", style="dim" if view.ended else style_of(TaskState.INPUT_REQUIRED))
    if degraded := degraded_text(view):
        head.append(f"  {strip_controls(degraded)}", style="yellow")
    if view.cancel_requested and not view.ended:
        head.append(f"  cancelling: {view.cancel_reason or 'no reason given'}", style="yellow")
    return head


def _add_tasks(branch: Tree, view: RunView, children: Mapping[str, list[TaskView]], parent: str, flag: str) -> None:
    from rich.text import Text

    for task in children.get(parent, ()):
        node = branch.add(_task_line(view, task))
        for note in [*task_notes(task)][-_NOTES:]:
            node.add(Text(strip_controls(note), style="yellow"))
        if task.state == TaskState.INPUT_REQUIRED and task.question is not None:
            question = pending_question(view.run_id, task.question)
            lines = [*question.lines()]
            for line in (*lines[:_QUESTION_LINES], *(["…"] if lines[_QUESTION_LINES:] else [])):
                node.add(Text(strip_controls(line), style=style_of(TaskState.INPUT_REQUIRED)))
            node.add(Text(strip_controls(f"To answer from another terminal: {question.command(flag)}")))
        if task.state == "working":
            style = "dim italic" if task.thinking else "dim"
            for line in _last_lines(task.thinking or task.text):
                node.add(Text(line, style=style, no_wrap=True, overflow="ellipsis"))
        _add_tasks(node, view, children, task.task_id, flag)


def _task_line(view: RunView, task: TaskView) -> RenderableType:
    from rich.text import Text

    style = style_of(task.state)
    width = _STEP_WIDTH if view.strategy == "plan" else _ROLE_WIDTH
    label = f"{task.label:<{width}}"
    line = Text.assemble((_MARKS.get(task.state, "·"), style), " ", (label, "bold"), " ", no_wrap=True)
    line.append(strip_controls(task_text(view, task)), style=style if task.state != "completed" else "")
    line.overflow = "ellipsis"
    return line


def _last_lines(text: str) -> list[str]:
    return [line.strip() for line in strip_controls(text).splitlines() if line.strip()][-_TEXT_LINES:]
