"""Steps with quorums, delays and decisions in the simulation; and lines 29 to 31 of docs/durability.md, which the
journals of their runs have to hold."""

from __future__ import annotations

from random import Random
from typing import Any, cast

from archon.api.agent.v1 import agent_pb2
from archon.wire import text_of
from archon_mesh.engine import events as ev
from archon_mesh.engine.decisions import Candidate, resolve
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.types import NOT_NEEDED, UNDECIDED, TaskState
from tests.simulation.check import Book, must
from tests.simulation.faults import Dice


def add_joins(random: Random, steps: list[dict[str, Any]]) -> None:
    """Gives some steps of a reply a quorum, a delay, or a decision."""
    for step in steps:
        count = len(step["dependencies"])
        if count and random.random() < 0.6:
            step["quorum"] = random.randint(1, count)
        if random.random() < 0.2:
            step["delay_seconds"] = random.choice([0.01, 0.3, 5])
        if count > 1 and random.random() < 0.5:
            for key in ("tool_name", "tool_args", "expected_output", "expand"):
                step.pop(key, None)
            step["decision"] = random.choice(["first", "vote", "best"])
            step["tool_args"] = {"least": 0.5} if step["decision"] == "vote" else {}
            step["role"] = random.choice(["", step["role"]])


def validate_joins(book: Book, dice: Dice) -> None:
    """V29 to V31 on the journal of one run."""
    validator = _Joins(book, dice)
    for event in book.facts:
        validator.take(event)


class _Joins:
    """The steps and the results of a run, as far as its events have been taken."""

    def __init__(self, book: Book, dice: Dice) -> None:
        submission = book.state.submission
        self._is_fork = submission is not None and bool(submission.parent_run_id)
        self._dice = dice
        self._steps: dict[str, SubTask] = {}
        self._tasks: dict[str, str] = {}
        """The task of each step of the plan in force."""

        self._created: dict[str, ev.TaskCreated] = {}
        self._left: set[str] = set()
        """Tasks whose decision was left to their role."""

        self._stopping: set[str] = set()
        self._states: dict[str, TaskState] = {}
        self._texts: dict[str, str] = {}

    def take(self, event: ev.Event) -> None:
        match event:
            case ev.Planned():
                self._steps = {step.id: step for step in event.plan.subtasks}
            case ev.TaskCreated() if event.step_id:
                self._created[event.task_id] = event
                self._tasks[event.step_id] = event.task_id
            case ev.Retried() if event.failure.reason == UNDECIDED:
                self._dice.fired["decision left to a role"] += 1
                must("V29", event.task_id not in self._left, f"the rule of {event.task_id} was asked twice")
                must("V29", bool(self._step_of(event.task_id).decision), f"{event.task_id} has no decision")
                self._left.add(event.task_id)
            case ev.TaskStopping():
                self._unneeded(event)
                self._stopping.add(event.task_id)
            case ev.TaskEnded():
                self._unneeded(event)
                self._states[event.task_id] = event.state
            case ev.ResultReceived():
                if event.state is TaskState.COMPLETED:
                    self._completed(event)
                self._states[event.task_id] = event.state

    def _step_of(self, task_id: str) -> SubTask:
        return self._steps[self._created[task_id].step_id]

    def _completed(self, event: ev.ResultReceived) -> None:
        must("V30", event.task_id not in self._stopping, f"{event.task_id} completed after it was stopped")
        text = text_of(cast(agent_pb2.TaskResult, event.payload).output)
        if not event.attempt and event.task_id in self._created and not self._is_fork:
            self._dice.fired["decision by a rule"] += 1
            self._decided(event.task_id, text)
        self._texts[event.task_id] = text

    def _decided(self, task_id: str, text: str) -> None:
        """V29: a result that no attempt made is the one that the step's rule chooses from those that there were."""
        step = self._step_of(task_id)
        must("V29", bool(step.decision) and task_id not in self._left, f"no attempt has made the result of {task_id}")
        names = self._created[task_id].predecessors
        upstream = [
            Candidate(self._created[name].step_id, self._texts.get(name, ""), self._created[name].role)
            for name in names
        ]
        done = [each for each, name in zip(upstream, names, strict=True) if name in self._texts]
        absent = [each for each, name in zip(upstream, names, strict=True) if name not in self._texts]
        must(
            "V19",
            len(done) >= min(step.quorum or len(names), len(names)) or step.partial_input,
            f"{task_id} was decided before its quorum was there",
        )
        made = resolve(step.decision, step.tool_args, done, absent)
        without = made.reason if made.is_decided else None
        chosen = {each.step_id: each.text for each in done}.get(made.winner, without)
        must("V29", text == chosen, f"{task_id} was decided for {text!r}, not {chosen!r}")

    def _unneeded(self, event: ev.TaskStopping | ev.TaskEnded) -> None:
        """V31: a step is stopped for want of a need only if each step that waits for it has its quorum, or has
        ended."""
        if event.failure is None or event.failure.reason != NOT_NEEDED or event.task_id in self._stopping:
            return
        self._dice.fired["step that is not needed stopped"] += 1
        waiting = [
            id_
            for id_, name in self._tasks.items()
            if id_ in self._steps
            and event.task_id in self._created[name].predecessors
            and name not in self._states
            and name not in self._stopping
            and not self._has_quorum(name)
        ]
        must("V31", not waiting, f"{event.task_id} was stopped, which {waiting} need")

    def _has_quorum(self, task_id: str) -> bool:
        step, names = self._step_of(task_id), self._created[task_id].predecessors
        completed = sum(self._states.get(name) is TaskState.COMPLETED for name in names)
        return bool(step.quorum) and completed >= min(step.quorum, len(names))
