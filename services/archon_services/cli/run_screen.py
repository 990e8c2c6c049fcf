"""How a run looks while it is under way: a live tree, lines, JSON, or nothing."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.output import console, duration, harmless, say, style_of
from archon_services.cli.run_view import RunView, TaskView

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

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
_TOLD: Final = ("task_state", "dispatched", "result", "published", "lost", "rejected")


class Screen(Protocol):
    """What shows a run."""

    def event(self, event: run_pb2.RunEvent) -> None:
        """One more event."""

    def note(self, text: str) -> None:
        """Something that no event tells."""

    def close(self) -> None:
        """Nothing more comes. Idempotent."""


class NoScreen:
    """Shows nothing but notes."""

    def event(self, event: run_pb2.RunEvent) -> None:
        """Ignored."""

    def note(self, text: str) -> None:
        """On standard error."""
        say(text)

    def close(self) -> None:
        """Nothing to do."""


class JsonScreen(NoScreen):
    """Each event as one line of JSON, with the field names of the contract."""

    def event(self, event: run_pb2.RunEvent) -> None:
        """Printed at once."""
        from google.protobuf import json_format

        line = json_format.MessageToJson(event, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class LineScreen(NoScreen):
    """A line for what changes a task or the run, on standard error; events before `since` are known, but not said."""

    def __init__(self, since: int = 0) -> None:
        self._view = RunView()
        self._since = since

    def event(self, event: run_pb2.RunEvent) -> None:
        """Said where it is news for a person."""
        self._view.apply(event)
        if event.seq < self._since:
            return
        view, kind = self._view, event.WhichOneof("event")
        at = f"{max(0.0, event.time.ToNanoseconds() / 1e9 - view.began):7.2f} s"
        task = view.tasks.get(event.task.task_id)
        if kind == "cancel_requested":
            say(f"{at}  run {view.run_id} is being cancelled: {harmless(view.cancelling)}")
        elif kind == "submitted" or (kind == "run_state" and view.ended):
            say(f"{at}  run {view.run_id} {view.state}")
        elif task is not None and kind in _TOLD:
            remark = f"  {task.remark}" if task.remark else ""
            say(f"{at}  {task.role:<14} {harmless(_what(view, task) + remark)}")


class TreeScreen(NoScreen):
    """A tree on the terminal: the run, its tasks, and the last lines that each is writing."""

    def __init__(self) -> None:
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

        view = self._view
        head = Text.assemble(
            ("run ", "bold"), (view.run_id[:12], "bold"), "  ", (view.shown_state, style_of(view.shown_state)), "  "
        )
        if view.began:
            head.append(duration(max(0.0, (view.ended or time.time()) - view.began)), style="dim")
        if view.cancelling and not view.ended:
            head.append(f"  being cancelled: {view.cancelling}", style="yellow")
        tree = Tree(head, guide_style="dim")
        for task in view.tasks.values():
            branch = tree.add(_line(view, task))
            if task.remark:
                branch.add(Text(harmless(task.remark), style="yellow"))
            if task.state == "working":
                for line in _last_lines(task.text):
                    branch.add(Text(line, style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(tree, *(Text(note, style="yellow") for note in self._notes))


def _line(view: RunView, task: TaskView) -> RenderableType:
    from rich.text import Text

    style = style_of(task.state)
    line = Text.assemble((_MARKS.get(task.state, "·"), style), " ", (f"{task.role:<14}", "bold"), " ", no_wrap=True)
    line.append(harmless(_what(view, task)), style=style if task.state != "completed" else "")
    line.overflow = "ellipsis"
    return line


def _what(view: RunView, task: TaskView) -> str:
    parts = [task.state]
    if waiting := view.waits_for(task):
        parts = [waiting]
    elif task.instance:
        parts.append(f"on {task.instance}")
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
    return "  ".join(parts)


def _last_lines(text: str) -> list[str]:
    return [line.strip() for line in harmless(text).splitlines() if line.strip()][-_TEXT_LINES:]
