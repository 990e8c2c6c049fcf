"""A task of an A2A agent, folded from the events of its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from a2a.types import a2a_pb2

from archon.errors import ResourceExhausted
from archon.failure_kinds import RetryAdvice
from archon.types.part import Part
from archon_services.common.a2a_parts import parts_from_a2a, plain

MAX_ANSWER: Final = 4 * 1024 * 1024
"""Bytes of all artifacts of a task."""

_STATES: Final = a2a_pb2.TaskState
_ENDED: Final = frozenset(
    (
        _STATES.TASK_STATE_COMPLETED,
        _STATES.TASK_STATE_FAILED,
        _STATES.TASK_STATE_CANCELED,
        _STATES.TASK_STATE_REJECTED,
    )
)
_WAITING: Final = frozenset((_STATES.TASK_STATE_INPUT_REQUIRED, _STATES.TASK_STATE_AUTH_REQUIRED))


class FoldedTask:
    """The task as its events leave it. `write` gets the text of artifacts as it comes. An agent may answer by a message
    alone: then there is no task, and the message is the answer."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._task = a2a_pb2.Task()
        self._message: a2a_pb2.Message | None = None
        self.answered = False
        """Whether an event came since the last message was sent."""

    @property
    def task_id(self) -> str:
        """The id of the task; empty before the agent has said it."""
        return self._task.id

    @property
    def context_id(self) -> str:
        """The context of the task."""
        return self._task.context_id

    @property
    def state(self) -> int:
        """The state of the task; unspecified if there is none."""
        return self._task.status.state

    @property
    def question(self) -> a2a_pb2.Message:
        """The message of the status."""
        return self._task.status.message

    @property
    def wants_secret(self) -> bool:
        """Whether the task waits for a credential."""
        return self.state == _STATES.TASK_STATE_AUTH_REQUIRED

    @property
    def ended(self) -> bool:
        """Whether the agent has nothing more to do."""
        return self._message is not None or self.state in _ENDED

    @property
    def waits(self) -> bool:
        """Whether the task waits for a person."""
        return self._message is None and self.state in _WAITING

    @property
    def settled(self) -> bool:
        """Whether the task has ended or waits for a person, as of an event after the last message."""
        return self.answered and (self.ended or self.waits)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the task."""
        values = plain(self._task.metadata)
        return values if isinstance(values, dict) else {}

    @property
    def status_text(self) -> str:
        """The text of the status."""
        return "\n".join(part.text for part in self._task.status.message.parts if part.text)[:2_000]

    def expect(self) -> None:
        """Notes that a message is being sent: a state from before does not count."""
        self.answered = False

    def apply_task(self, task: a2a_pb2.Task) -> None:
        """Takes the task as the agent has returned it."""
        self._task.CopyFrom(task)
        self._check()
        self.answered = True

    def apply(self, event: a2a_pb2.StreamResponse) -> None:
        """Folds one event. Raises ResourceExhausted if the artifacts are too large."""
        kind = event.WhichOneof("payload")
        if kind == "task":
            self.apply_task(event.task)
        elif kind == "message":
            self._message, self.answered = event.message, True
        elif kind == "status_update":
            update = event.status_update
            self._task.id, self._task.context_id = update.task_id, update.context_id
            self._task.status.CopyFrom(update.status)
            self.answered = True
        elif kind == "artifact_update":
            self._extend(event.artifact_update)

    def answer(self) -> list[Part]:
        """Returns the artifacts; without one the message of the status, or of the agent."""
        if self._message is not None:
            return parts_from_a2a(self._message)
        parts = [part for each in self._task.artifacts for part in self._parts(each)]
        if not parts and self._task.status.HasField("message"):
            parts = self._parts(self._task.status.message)
        if not parts:
            last = next((each for each in reversed(self._task.history) if each.role == a2a_pb2.Role.ROLE_AGENT), None)
            parts = [] if last is None else self._parts(last)
        return parts or [Part(text="")]

    def _extend(self, update: a2a_pb2.TaskArtifactUpdateEvent) -> None:
        self._task.id, self._task.context_id = update.task_id, update.context_id
        known = next((a for a in self._task.artifacts if a.artifact_id == update.artifact.artifact_id), None)
        if known is None:
            self._task.artifacts.append(update.artifact)
        elif update.append:
            known.parts.extend(update.artifact.parts)
        else:
            known.CopyFrom(update.artifact)
        if known is None or update.append:
            for part in update.artifact.parts:
                if part.text:
                    self._write(part.text)
        self._check()

    def _check(self) -> None:
        if (size := self._task.ByteSize()) > MAX_ANSWER:
            raise ResourceExhausted(
                f"the task of the agent has {size:,} bytes, at most {MAX_ANSWER:,} are taken", retry=RetryAdvice.NEVER
            )

    @staticmethod
    def _parts(content: a2a_pb2.Artifact | a2a_pb2.Message) -> list[Part]:
        """Returns parts: the pieces of a text are one part."""
        parts: list[Part] = []
        for part in parts_from_a2a(a2a_pb2.Message(parts=content.parts)):
            last = parts[-1] if parts else None
            if part.text is not None and _goes_on(part, last):
                parts[-1] = Part(text=(parts[-1].text or "") + part.text, media_type=part.media_type)
            else:
                parts.append(part)
        return parts


def _goes_on(part: Part, last: Part | None) -> bool:
    """Whether a text is a further piece of the text before it."""
    return last is not None and last.text is not None and part.media_type == last.media_type and not part.filename
