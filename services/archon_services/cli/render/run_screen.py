"""How a run looks while it is under way: a live tree, lines, JSON, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.output import console, duration, harmless, say, style_of
from archon_services.cli.render.questions import asked_of
from archon_services.cli.render.run_view import ASKING, RunView, TaskView
from archon_services.cli.render.run_words import lacking, news, remarks, run_news, standing, task_words
from archon_services.cli.render.task_tree import children_of, in_order

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
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
_TEXT_LINES: Final = 2
_NOTES: Final = 4
_QUESTION_LINES: Final = 12


class Screen(Protocol):
    """What shows a run."""

    def event(self, event: run_pb2.RunEvent) -> None:
        """One more event."""

    def note(self, text: str) -> None:
        """Something that no event tells."""

    def close(self) -> None:
        """Nothing more comes. Idempotent."""


class _NoScreen:
    """Shows nothing but notes."""

    def event(self, event: run_pb2.RunEvent) -> None:
        """Ignored."""

    def note(self, text: str) -> None:
        """On standard error."""
        say(text)

    def close(self) -> None:
        """Nothing to do."""


class QuietScreen(_NoScreen):
    """Shows nothing but what people are asked, without which the run would stand for no visible reason."""

    def __init__(self, reach: str = "") -> None:
        """`reach` is what a command needs to find the orchestrator."""
        self._reach = reach

    def event(self, event: run_pb2.RunEvent) -> None:
        """Questions, on standard error."""
        if event.HasField("input_requested"):
            asked = asked_of(event.run_id, event.input_requested)
            for line in (f"{asked.role} asks:", *asked.lines(), f"To answer: {asked.command(self._reach)}"):
                say(harmless(line))


class JsonScreen(_NoScreen):
    """Each event as one line of JSON, with the field names of the contract."""

    def event(self, event: run_pb2.RunEvent) -> None:
        """Printed at once."""
        from google.protobuf import json_format

        line = json_format.MessageToJson(event, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class LineScreen(_NoScreen):
    """A line for what changes a task or the run, on standard error; events before `since` are known, but not said."""

    def __init__(self, since: int = 0, reach: str = "") -> None:
        """`reach` is what a command needs to find the orchestrator."""
        self._view = RunView()
        self._since = since
        self._reach = reach

    def event(self, event: run_pb2.RunEvent) -> None:
        """Said where it is news for a person; a delegated task further to the right than the one that delegated it."""
        asked_before = self._view.asked_before(event)
        self._view.apply(event)
        if event.seq < self._since:
            return
        view, kind = self._view, event.WhichOneof("event")
        at = f"{max(0.0, event.time.ToNanoseconds() / 1e9 - view.began):7.2f} s"
        task = view.tasks.get(event.task.task_id)
        if said := run_news(view, event):
            say(f"{at}  run {view.run_id} {harmless(said)}")
        elif task is not None and (said := news(view, event, asked_before=asked_before)):
            depth = next(depth for depth, one in in_order(view.tasks.values()) if one is task)
            say(f"{at}  {'  ' * depth + task.role:<14} {harmless(said)}")
            if kind == "input_requested" and task.asked is not None:
                for line in filter(None, (task.asked.form, f"To answer: {task.asked.command(self._reach)}")):
                    say(f"{'':26}{harmless(line)}")


class TreeScreen(_NoScreen):
    """A tree on the terminal: the run, its tasks, and the last lines that each is writing."""

    def __init__(self, reach: str = "") -> None:
        """`reach` is what a command needs to find the orchestrator."""
        self._reach = reach
        self._view = RunView()
        self._notes: list[str] = []
        self._live: Live | None = None

    def event(self, event: run_pb2.RunEvent) -> None:
        """Seen with the next refresh."""
        self._view.apply(event)
        if self._live is None:
            from rich.live import Live

            self._live = Live(get_renderable=self._tree, console=console(), refresh_per_second=12)
            self._live.start()

    def note(self, text: str) -> None:
        """Below the tree."""
        if self._live is None:
            say(text)
        else:
            self._notes.append(text)

    def close(self) -> None:
        """The tree stays as it is."""
        self._notes.clear()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _tree(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text
        from rich.tree import Tree

        view, now = self._view, time.time()
        head = Text.assemble(
            ("run ", "bold"), (view.run_id[:12], "bold"), "  ", (view.shown_state, style_of(view.shown_state)), "  "
        )
        if view.began:
            head.append(duration(view.elapsed(now)), style="dim")
            if stands := standing(view, now):
                head.append(f"  {stands}", style="dim" if view.ended else style_of(ASKING))
        if lacks := lacking(view):
            head.append(f"  {harmless(lacks)}", style="yellow")
        if view.cancelling and not view.ended:
            head.append(f"  being cancelled: {view.cancelling}", style="yellow")
        tree = Tree(head, guide_style="dim")
        _grow(tree, view, children_of(view.tasks.values()), "", self._reach)
        return Group(tree, *(Text(note, style="yellow") for note in self._notes))


def _grow(branch: Tree, view: RunView, below: Mapping[str, list[TaskView]], parent: str, reach: str) -> None:
    from rich.text import Text

    for task in below.get(parent, ()):
        twig = branch.add(_line(view, task))
        for remark in [*remarks(task)][-_NOTES:]:
            twig.add(Text(harmless(remark), style="yellow"))
        if task.state == ASKING and task.asked is not None:
            lines = [*task.asked.lines()]
            for line in (*lines[:_QUESTION_LINES], *(["…"] if lines[_QUESTION_LINES:] else [])):
                twig.add(Text(harmless(line), style=style_of(ASKING)))
            twig.add(Text(harmless(f"To answer, from another terminal: {task.asked.command(reach)}")))
        if task.state == "working":
            for line in _last_lines(task.text):
                twig.add(Text(line, style="dim", no_wrap=True, overflow="ellipsis"))
        _grow(twig, view, below, task.task_id, reach)


def _line(view: RunView, task: TaskView) -> RenderableType:
    from rich.text import Text

    style = style_of(task.state)
    line = Text.assemble((_MARKS.get(task.state, "·"), style), " ", (f"{task.role:<14}", "bold"), " ", no_wrap=True)
    line.append(harmless(task_words(view, task)), style=style if task.state != "completed" else "")
    line.overflow = "ellipsis"
    return line


def _last_lines(text: str) -> list[str]:
    return [line.strip() for line in harmless(text).splitlines() if line.strip()][-_TEXT_LINES:]
