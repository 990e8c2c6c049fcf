"""The lineage of a run: which task's answer used which others, folded from the run's events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from archon.api.common.v1 import plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.lineage.uses import EDITED_SEQ_KEY, TaskLineage, Use, UseKind
from archon.run_view import RunView
from archon.run_view.task import EDITED_BY_KEY
from archon.types.memory_ref import MemoryRef
from archon.types.run_event import RunEvent
from archon.types.task_state import TaskState

_TEMPLATE: Final = re.compile(r"\{\{|\}\}|\{([^{}]{1,200})\}")
"""A template in the arguments of a step's tool, or a doubled brace, which stands for one brace."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A plan of the run: the event with it, and the planner's task that made it; empty if a person did."""

    seq: int
    number: int
    task_id: str


@dataclass(slots=True)
class RunLineage:
    """The tasks of a run, with the sources that each answer used. `apply` takes the durable events in order, from the
    first."""

    run_id: str = ""
    tasks: dict[str, TaskLineage] = field(default_factory=dict)
    """The tasks by id, in the order of their creation."""
    revisions: list[Revision] = field(default_factory=list)
    """The plans of the run, in order."""
    last_seq: int = 0
    _view: RunView = field(default_factory=RunView, init=False, repr=False)
    _strategy: int = field(default=0, init=False, repr=False)
    _producers: dict[int, str] = field(default_factory=dict, init=False, repr=False)
    """The tasks of the events with an answer or an item."""
    _versions: dict[tuple[str, int], int] = field(default_factory=dict, init=False, repr=False)
    """The events with the answers, by role and version in the shared memory."""
    _steps: dict[str, plan_pb2.PlanStep] = field(default_factory=dict, init=False, repr=False)
    _step_tasks: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _planned_with: dict[str, plan_pb2.PlanStep] = field(default_factory=dict, init=False, repr=False)
    """The step of each task as the plan had it when the task was created."""
    _results_then: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False)
    """The tasks whose results the planner's tasks had."""
    _maker: str = field(default="", init=False, repr=False)
    _makers: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def apply(self, event: RunEvent) -> None:
        """Folds one event. A transient one, or one that was applied before, changes nothing."""
        proto = event.proto
        if not proto.seq or proto.seq <= self.last_seq:
            return
        self.last_seq, self.run_id = proto.seq, proto.run_id or self.run_id
        self._view.apply(event)
        kind = proto.WhichOneof("event")
        match kind:
            case "submitted":
                self._strategy = proto.submitted.strategy
            case "planned":
                self._planned(proto)
            case "published":
                self._versions[proto.published.role, proto.published.ref.version] = proto.published.ref.seq
        if proto.task.task_id and kind is not None and kind != "planned":
            self._apply_to_task(self._task(proto, kind), proto, kind)

    def _planned(self, event: run_pb2.RunEvent) -> None:
        planned = event.planned
        self._steps = {step.step_id: step for step in planned.plan.steps}
        maker = "" if planned.edit_id else event.task.task_id
        self.revisions.append(Revision(event.seq, planned.plan.revision, maker))
        self._maker = maker

    def _task(self, event: run_pb2.RunEvent, kind: str) -> TaskLineage:
        task_id = event.task.task_id
        child = event.delegated.child_task_id if kind == "delegated" else ""
        if child and child not in self.tasks:
            self.tasks[child] = TaskLineage(child, event.delegated.role, parent_task_id=task_id)
        if (known := self.tasks.get(task_id)) is not None:
            return known
        created = event.task_state
        task = TaskLineage(
            task_id,
            getattr(getattr(event, kind), "role", ""),
            created.step_id,
            created.parent_task_id,
            tuple(created.predecessors),
            created.align,
            event.seq,
        )
        self.tasks[task_id] = task
        if task.step_id:
            self._step_tasks[task.step_id] = task_id
            self._makers[task_id] = self._maker
            task.plan_revision = self.revisions[-1].number if self.revisions else 0
            if (step := self._steps.get(task.step_id)) is not None:
                self._planned_with[task_id] = step
        return task

    def _apply_to_task(self, task: TaskLineage, event: run_pb2.RunEvent, kind: str) -> None:
        match kind:
            case "task_state" if not event.task_state.stopping:
                task.state = TaskState.from_proto(event.task_state.state)
            case "dispatched":
                task.role, task.attempt = event.dispatched.role, event.task.attempt
                task.state = TaskState.WORKING
                task.given = task.used = tuple(map(MemoryRef.from_proto, event.dispatched.given))
                if self.is_planner(task) and not task.predecessors:
                    self._results_then[task.task_id] = tuple(self._results_in_force())
            case "delegated":
                if event.delegated.child_task_id:
                    task.children.setdefault(event.delegated.memo_key, event.delegated.child_task_id)
                    task.cancelled.discard(event.delegated.child_task_id)
            case "result":
                self._result(task, event)
            case "item_published":
                self._producers[event.seq] = task.task_id

    def _result(self, task: TaskLineage, event: run_pb2.RunEvent) -> None:
        result = event.result
        task.state, task.role = TaskState.from_proto(result.state), result.role or task.role
        task.result_seq, task.messages_read = event.seq, result.messages_read
        if not event.task.attempt:
            task.attempt, task.given = 0, ()
        task.names_used = bool(result.used)
        task.used = tuple(map(MemoryRef.from_proto, result.used)) or task.given
        task.is_decided, task.winner_step_id = result.HasField("resolution"), result.resolution.winner_step_id
        if not event.task.attempt and EDITED_BY_KEY in result.metadata:
            task.is_edited, task.edited_by = True, result.metadata[EDITED_BY_KEY]
            seq = result.metadata.get(EDITED_SEQ_KEY, "")
            task.edited_seq = int(seq) if seq.isdecimal() else 0
        self._producers[event.seq] = task.task_id

    def is_planner(self, task: TaskLineage) -> bool:
        """Whether the task is the planner's: it makes, checks or completes the plan, or combines the results."""
        return self._strategy == run_pb2.STRATEGY_PLAN and not (task.step_id or task.parent_task_id)

    def in_force(self, task: TaskLineage) -> bool:
        """Whether the task executes a step of the last plan, and not one that a later plan has replaced."""
        return task.step_id in self._steps and self._step_tasks.get(task.step_id) == task.task_id

    def _results_in_force(self) -> Iterator[str]:
        for step_id in self._steps:
            task = self.tasks.get(self._step_tasks.get(step_id, ""))
            if task is not None and task.completed:
                yield task.task_id

    def producer(self, ref: MemoryRef) -> str:
        """Returns the task of this run with the answer or item that a reference names; empty if it is not of this
        run."""
        if ref.run_id and ref.run_id != self.run_id:
            return ""
        return self._producers.get(self._seq(ref), "")

    def _seq(self, ref: MemoryRef) -> int:
        return ref.seq or self._versions.get((ref.role, ref.version), 0)

    def outside(self, task_id: str) -> list[MemoryRef]:
        """Returns the answers from elsewhere that a task's answer used: of the session's shared memory, or of the run
        that this one was forked from."""
        return [ref for ref in self.tasks[task_id].used if not self.producer(ref)]

    def uses(self, task_id: str) -> list[Use]:
        """Returns the uses of other tasks of this run by the answer of a task, each task and kind once."""
        task = self.tasks[task_id]
        if task.is_edited:
            return []
        uses = [Use(UseKind.ANSWER, self.producer(ref), self._seq(ref)) for ref in task.used]
        uses += self._uses_of_step(task)
        for child in dict.fromkeys(task.children.values()):
            # A delegation that was cancelled may have told the task as much as its answer.
            uses.append(Use(UseKind.DELEGATION, child, self.tasks[child].result_seq))
        if task.messages_read:
            uses += [
                Use(UseKind.MESSAGE, each.task_id, each.message.seq)
                for each in self._view.messages
                if task_id in each.readers
            ]
        if self.is_planner(task) and not task.reused:
            then = self._results_then.get(task_id, ())
            uses += [Use(UseKind.RESULT, other, self.tasks[other].result_seq) for other in then]
        unique = {(use.kind, use.task_id): use for use in reversed(uses) if use.task_id and use.task_id != task_id}
        return [*reversed(unique.values())]

    def _uses_of_step(self, task: TaskLineage) -> Iterator[Use]:
        if maker := self._makers.get(task.task_id, ""):
            yield Use(UseKind.PLAN, maker, self.tasks[maker].result_seq)
        step = self._planned_with.get(task.task_id)
        if step is None:
            return
        by_step = {other.step_id: other for id_ in task.predecessors if (other := self.tasks.get(id_)) is not None}
        for other in by_step.values():
            if task.is_decided and other.completed and 0 < other.result_seq < task.result_seq:
                yield Use(UseKind.CANDIDATE, other.task_id, other.result_seq)
            if step.assigned_by and other.step_id == step.assigned_by and other.result_seq:
                yield Use(UseKind.AWARD, other.task_id, other.result_seq)
        if step.tool_args_json and not step.decision:
            for id_ in _named_in(step.tool_args_json, by_step):
                if (other := by_step[id_]).completed:
                    yield Use(UseKind.ARGUMENT, other.task_id, other.result_seq)

    def affected(self, changed: Iterable[str]) -> dict[str, Use | None]:
        """Returns the tasks that have to run again if these are changed: they themselves, with None, and all whose
        answers, or last attempts, used an answer of such a task, each with the use; in the order in which they were
        found."""
        users: dict[str, list[tuple[str, Use]]] = {}
        for task_id in self.tasks:
            for use in self.uses(task_id):
                users.setdefault(use.task_id, []).append((task_id, use))
        found: dict[str, Use | None] = dict.fromkeys(changed)
        waiting = list(found)
        while waiting:
            for task_id, use in users.get(waiting.pop(0), ()):
                if task_id not in found:
                    found[task_id] = use
                    waiting.append(task_id)
        return found

    def messages_read_by(self, task_id: str) -> list[int]:
        """Returns the events with the messages that a task had read when it answered."""
        return [each.message.seq for each in self._view.messages if task_id in each.readers]

    def message_sender(self, seq: int) -> str:
        """Returns the task that sent the message of an event. Raises KeyError if the event has none."""
        senders = {each.message.seq: each.task_id for each in self._view.messages}
        return senders[seq]

    def messages_unread(self, task_id: str) -> list[int]:
        """Returns the events with messages that were for a task, and that it had not read when it answered."""
        task = self.tasks[task_id]
        names = {task.role, task.task_id, task.step_id} - {""}
        return [
            each.message.seq
            for each in self._view.messages
            if each.message.receiver_id in names and each.failure is None and task_id not in each.readers
        ]

    def named(self, name: str) -> list[TaskLineage]:
        """Returns the tasks with an id, a step or a role of this name; of steps and ids only the newest plan's."""
        if (task := self.tasks.get(name)) is not None:
            return [task]
        steps = [task for task in self.tasks.values() if task.step_id == name]
        if steps:
            return steps[-1:]
        return [task for task in self.tasks.values() if task.role == name]


def _named_in(args_json: str, steps: Mapping[str, TaskLineage]) -> list[str]:
    """Returns the steps whose results the templates of a tool's arguments name. A template that names none stands for
    the result of the only one."""
    try:
        texts = list(_texts(json.loads(args_json)))
    except (ValueError, RecursionError):
        return list(steps)
    keys = [match[1] for text in texts for match in _TEMPLATE.finditer(text) if match[1]]
    named = [id_ for id_ in steps if any(key == id_ or key.startswith(f"{id_}.") for key in keys)]
    return named or (list(steps) if keys and len(steps) == 1 else [])


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
