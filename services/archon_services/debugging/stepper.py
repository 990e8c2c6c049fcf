"""The position of a debugger in a run: the event that was applied last."""

from __future__ import annotations

from archon.run_view import RunView, TaskView
from archon.types import RunEvent
from archon_services.debugging.recorded import DebuggedRun
from archon_services.debugging.search import Match
from archon_services.debugging.sent import SentTasks
from archon_services.debugging.timeline import Timeline


class Stepper:
    """Steps through a run. It begins after the first event."""

    def __init__(self, run: DebuggedRun, timeline: Timeline | None = None) -> None:
        self.run = run
        self.timeline = timeline or Timeline(run.events)
        self.sent = SentTasks(run)
        self.seq = 1

    @property
    def event(self) -> RunEvent:
        """The event that was applied last."""
        return self.run.event(self.seq)

    @property
    def view(self) -> RunView:
        """The state of the run after that event."""
        return self.timeline.at(self.seq)

    @property
    def task(self) -> TaskView | None:
        """The task that the event concerns; None if it concerns the run."""
        return self.view.tasks.get(self.event.task_id)

    def go(self, seq: int) -> bool:
        """Moves to an event; to the first or the last one if there is none with this number, and returns False then."""
        self.seq = min(max(1, seq), self.run.last_seq)
        return self.seq == seq

    def next(self, matches: Match, *, backwards: bool = False) -> bool:
        """Moves to the nearest event after this one that matches, or before it; stays and returns False if there is
        none."""
        seqs = range(self.seq - 1, 0, -1) if backwards else range(self.seq + 1, self.run.last_seq + 1)
        found = next((seq for seq in seqs if matches(self.run.event(seq))), 0)
        self.seq = found or self.seq
        return bool(found)

    def first(self, matches: Match) -> bool:
        """Moves to the first event of the run that matches; stays and returns False if there is none."""
        found = next((event.seq for event in self.run.events if matches(event)), 0)
        self.seq = found or self.seq
        return bool(found)

    def named(self, name: str) -> list[TaskView]:
        """Returns the tasks with this id, step or role, as of the whole run, in the order of their creation."""
        tasks = list(self.timeline.at(self.run.last_seq).tasks.values())
        for found in (
            [task for task in tasks if task.task_id == name or task.task_id.endswith(f".{name}")],
            [task for task in tasks if name and task.step_id == name],
            [task for task in tasks if task.role == name],
        ):
            if found:
                return found
        return []
