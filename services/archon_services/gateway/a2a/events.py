"""Events of a run as events of an A2A task: changes of its status, and artifacts as they grow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from a2a.types import a2a_pb2

from archon.run_view import RunView, TaskView
from archon.types.part import Part, to_parts
from archon.types.run import Run
from archon.types.run_event import RunEvent
from archon.types.task_state import TaskState
from archon.wire import to_seconds
from archon_services.gateway.a2a.questions import Asked
from archon_services.gateway.a2a.tasks import STATES, artifact, status_of, task_of, timestamp

TaskEvent = a2a_pb2.TaskStatusUpdateEvent | a2a_pb2.TaskArtifactUpdateEvent


@dataclass(slots=True)
class _Growing:
    """The text of an attempt as far as it was sent. The newest piece is held back: it goes with the end."""

    attempt: int = 0
    sent: str = ""
    held: str = ""
    size: int = 0
    whole: bool = True
    """Whether every piece came: pieces are lost under load, and the artifact then comes as a whole."""


def closing_events(run: Run, sent: Collection[str]) -> Iterator[TaskEvent]:
    """Yields the artifacts of a run that has ended, but for those that were `sent`, and its last status. The summary of
    the run is sufficient."""
    task = task_of(run)
    for each in task.artifacts:
        if each.artifact_id not in sent:
            yield a2a_pb2.TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=each, last_chunk=True
            )
    yield a2a_pb2.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)


@dataclass(slots=True)
class TaskEvents:
    """Folds the events of a run, from the first one on. Events up to the number `after_seq` are known to the reader.

    The text of an answer comes in pieces while it is written. An attempt that is lost begins the artifact anew.
    """

    context_id: str
    after_seq: int = 0
    pieces: bool = True
    """Whether answers come in pieces."""
    view: RunView = field(default_factory=RunView)
    sent: set[str] = field(default_factory=set)
    """The tasks whose answers were sent as artifacts."""
    _asked: dict[str, Asked] = field(default_factory=dict)
    _growing: dict[str, _Growing] = field(default_factory=dict)
    _status: tuple[object, ...] = ()

    def apply(self, event: RunEvent) -> list[TaskEvent]:
        """Folds an event, and returns the events of the task that follow from it; its last status is one of
        `closing_events`."""
        message = event.proto
        self.view.apply(event)
        if (question := Asked.from_event(message)) is not None:
            self._asked[question.input_id] = question
        known = (event.seq or self.view.last_seq + 1) <= self.after_seq
        kind = message.WhichOneof("event")
        out: list[TaskEvent] = []
        if kind == "text_delta" and self.pieces and not known:
            out += self._piece(message.task.task_id, message.task.attempt, message.text_delta.offset, event)
        elif kind == "result" and message.result.state == TaskState.COMPLETED.proto:
            task = self.view.tasks.get(message.task.task_id)
            if task is not None and self._answers(task):
                self.sent.add(task.task_id)
                if not known:
                    out += self._answer(task, to_parts(message.result.output))
        if (status := self._changed(to_seconds(message.time))) is not None and not known:
            out.append(status)
        return out

    @property
    def questions(self) -> list[Asked]:
        """The open questions, oldest first."""
        return [self._asked[each.input_id] for each in self.view.questions if each.input_id in self._asked]

    @property
    def interrupted(self) -> bool:
        """Whether the task waits for a person, as of the newest event."""
        return bool(self.view.questions) and not self.view.ended

    @property
    def needs_input(self) -> bool:
        """Whether the task waits for a person who is asked for more than secrets."""
        return self.interrupted and not all(question.is_secret for question in self.questions)

    def _changed(self, now: float) -> a2a_pb2.TaskStatusUpdateEvent | None:
        view, questions = self.view, self.questions
        if view.ended or not view.run_id:
            return None
        status = status_of(view.run_id, self.context_id, view.state, questions, None)
        key = (status.state, questions[0].input_id if questions else "")
        if not self._status:  # the first event: the task itself says it
            self._status = (STATES[TaskState.SUBMITTED], "")
        if key == self._status:
            return None
        self._status = key
        status.timestamp.CopyFrom(timestamp(now))
        return self._update(status)

    def _answers(self, task: TaskView) -> bool:
        """Whether the answer of a task is one of the run's, as far as is known before its end."""
        if task.parent_task_id or task.step_id or self.view.strategy == "plan":
            return False
        return all(upstream != task.role for upstream, _ in self.view.edges)

    def _piece(self, task_id: str, attempt: int, offset: int, event: RunEvent) -> list[TaskEvent]:
        task = self.view.tasks.get(task_id)
        if task is None or not self._answers(task):
            return []
        text = event.proto.text_delta.text
        growing = self._growing.get(task_id)
        if growing is None or growing.attempt != attempt:
            growing = self._growing[task_id] = _Growing(attempt)
        if not growing.whole or offset != growing.size:
            growing.whole = False
            return []
        growing.size += len(text.encode())
        out: list[TaskEvent] = []
        if growing.held:
            part = artifact(task_id, task.role, task.step_id, [Part(text=growing.held)])
            out.append(self._artifact(part, append=bool(growing.sent)))
            growing.sent += growing.held
        growing.held = text
        return out

    def _answer(self, task: TaskView, parts: Sequence[Part]) -> list[TaskEvent]:
        growing = self._growing.pop(task.task_id, None)
        if growing is not None and growing.sent and growing.whole and len(parts) == 1 and not parts[0].media_type:
            rest = parts[0].text or ""
            if rest.startswith(growing.sent) and len(rest) > len(growing.sent):
                end = artifact(task.task_id, task.role, task.step_id, [Part(text=rest[len(growing.sent) :])])
                return [self._artifact(end, append=True, last=True)]
        return [self._artifact(artifact(task.task_id, task.role, task.step_id, parts), last=True)]

    def _artifact(
        self, content: a2a_pb2.Artifact, *, append: bool = False, last: bool = False
    ) -> a2a_pb2.TaskArtifactUpdateEvent:
        return a2a_pb2.TaskArtifactUpdateEvent(
            task_id=self.view.run_id, context_id=self.context_id, artifact=content, append=append, last_chunk=last
        )

    def _update(self, status: a2a_pb2.TaskStatus) -> a2a_pb2.TaskStatusUpdateEvent:
        return a2a_pb2.TaskStatusUpdateEvent(task_id=self.view.run_id, context_id=self.context_id, status=status)
