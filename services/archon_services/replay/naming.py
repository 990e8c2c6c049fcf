"""Names of tasks and events that are the same in a recorded run and in one that is run again."""

from __future__ import annotations

from collections import Counter
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2

CREATED: Final = "task_state"


class Names:
    """The names of the tasks and the events of one run. `add` takes its events in order.

    A task is named by its step, or its role, below the name of the task that delegated it, and by its number among
    equals from the second on: `planner#2`, `research/coder`, `step collect`. An event is named by its task, its kind
    and its number among equals."""

    def __init__(self) -> None:
        self.run_id = ""
        self.tasks: dict[str, str] = {}
        """The names by task id."""
        self.ids: dict[str, str] = {}
        """The task ids by name."""
        self.people: set[str] = set()
        """The identities that have answered questions."""
        self.events: dict[int, str] = {0: ""}
        """The names of events by their numbers."""
        self.seqs: dict[str, int] = {"": 0}
        """The numbers of events by their names."""
        self._created: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()

    def add(self, event: run_pb2.RunEvent) -> str:
        """Adds the next event, and returns the name of its task, empty if it concerns none."""
        self.run_id = event.run_id
        task_id = event.task.task_id
        kind = event.WhichOneof("event") or ""
        if kind == CREATED and task_id not in self.tasks:
            self._add_task(task_id, event.task_state)
        elif kind == "input_given" and event.input_given.identity:
            self.people.add(event.input_given.identity)
        task = self.tasks.get(task_id, task_id)
        base = f"{task}:{kind}"
        self._kinds[base] += 1
        name = _numbered(base, self._kinds[base])
        self.events[event.seq], self.seqs[name] = name, event.seq
        return task

    def ref(self, ref: common_pb2.MemoryRef) -> str:
        """Returns the name of an answer: by its event, if it is of this run, else by its run and number."""
        if not ref.seq:
            return f"{ref.role}="
        own = ref.run_id in ("", self.run_id)
        return f"{ref.role}={self.events.get(ref.seq, '') if own else f'{ref.run_id}/{ref.seq}'}"

    def _add_task(self, task_id: str, created: run_pb2.TaskStateChanged) -> None:
        own = f"step {created.step_id}" if created.step_id else created.role
        parent = self.tasks.get(created.parent_task_id, "")
        base = f"{parent}/{own}" if parent else own
        self._created[base] += 1
        name = _numbered(base, self._created[base])
        self.tasks[task_id], self.ids[name] = name, task_id

    def input_id(self, input_id: str) -> str:
        """Returns the id of a question with the name of its task in place of the id."""
        task_id, slash, own = input_id.partition("/")
        return f"{self.tasks[task_id]}{slash}{own}" if task_id in self.tasks else input_id


def _numbered(base: str, number: int) -> str:
    return base if number == 1 else f"{base}#{number}"
