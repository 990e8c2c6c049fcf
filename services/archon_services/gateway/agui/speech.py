"""The text and the thinking of one task, as messages of AG-UI."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from ag_ui.core import (
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from archon.json_text import json_or
from archon.types.part import Part
from archon_services.gateway.agui.contents import answer_text, media_of
from archon_services.gateway.agui.transcript import Transcript

CONTENT: str = "archon.content"
"""The type of an activity that holds images and files of an answer: messages of agents are text alone."""


class Speech:
    """Turns the pieces of a task's text into messages: one for each stretch of text between tool calls.

    `task_id` and `name` are of the task; `owner` is the sub-agent that it is, None for the agent itself. Pieces may be
    lost under load, and a stream may begin in the middle of a text: the rest comes with the answer, which is whole.
    """

    def __init__(self, transcript: Transcript, task_id: str, name: str, owner: str | None) -> None:
        self.name, self.owner = name, owner
        self._transcript, self._task_id = transcript, task_id
        self._attempt = 0
        self._count = 0
        self._size = 0
        self._whole = True
        self._open: AssistantMessage | None = None
        self._last: AssistantMessage | None = None
        self._space = ""
        self._thinking = ""
        self._of_attempt: list[str] = []

    def begin(self, attempt: int) -> None:
        """Forgets the text of the attempt before; offsets of bytes begin at 0."""
        self._attempt, self._size, self._whole = attempt, 0, True
        self._last, self._space = None, ""
        self._of_attempt = []

    def write(self, attempt: int, offset: int, text: str) -> list[BaseEvent]:
        """Returns the events of a piece of text, which comes after `offset` bytes of the attempt."""
        if attempt != self._attempt:
            return []
        if not self._whole or offset != self._size:
            self._whole = False
            return []
        self._size += len(text.encode())
        text, self._space = self._space + text, ""
        if stripped := text.rstrip():
            self._space = text[len(stripped) :]
            return [*self.end_thinking(), *self._say(stripped if self._open is not None else stripped.lstrip())]
        self._space = text if self._open is not None else ""
        return []

    def think(self, attempt: int, text: str) -> list[BaseEvent]:
        """Returns the events of a piece of thinking."""
        if attempt != self._attempt or not text:
            return []
        out = self.end_text()
        if not self._thinking:
            # Nothing but its pieces says which thinking this is: another stream of the run has other ids.
            self._thinking = self._transcript.id_of("thinking", uuid.uuid4().hex[:16])
            out += [
                ReasoningStartEvent(message_id=self._thinking, subagent_run_id=self.owner),
                ReasoningMessageStartEvent(message_id=self._thinking, role="reasoning", subagent_run_id=self.owner),
            ]
        out.append(ReasoningMessageContentEvent(message_id=self._thinking, delta=text, subagent_run_id=self.owner))
        return out

    def parent(self) -> AssistantMessage:
        """Returns the message that a tool call of the present reply belongs to. Its text has ended."""
        return self._last if self._last is not None else self._new()

    def end_reply(self) -> None:
        """Notes that the next text or tool call is of another reply."""
        self._last = None

    def end_thinking(self) -> list[BaseEvent]:
        """Ends the thinking, if there is one."""
        if not self._thinking:
            return []
        message_id, self._thinking = self._thinking, ""
        return [
            ReasoningMessageEndEvent(message_id=message_id, subagent_run_id=self.owner),
            ReasoningEndEvent(message_id=message_id, subagent_run_id=self.owner),
        ]

    def end_text(self) -> list[BaseEvent]:
        """Ends the message in progress, if there is one."""
        if self._open is None:
            return []
        message, self._open, self._space = self._open, None, ""
        return [TextMessageEndEvent(message_id=message.id, subagent_run_id=self.owner)]

    def close(self, *, is_lost: bool = False) -> tuple[list[BaseEvent], bool]:
        """Ends the text and the thinking, with the attempt. If it is lost, removes its messages from the transcript.
        Returns the events, and whether messages were removed."""
        out = [*self.end_thinking(), *self.end_text()]
        return out, is_lost and self._transcript.drop(self._of_attempt)

    def answer(self, parts: Sequence[Part]) -> list[BaseEvent]:
        """Returns the events of the answer, as far as its text has not come in pieces."""
        out = self.end_thinking()
        text = answer_text(parts).lstrip()
        shown = self._open if self._open is not None else self._last
        said = (shown.content or "") if shown is not None else ""
        if self._open is not None and said and text.startswith(said):
            out += self._say(text[len(said) :])
        elif text and not _same(said, text):
            out += self.end_text()
            out += self._say(text)
        out += self.end_text()
        if media := media_of(parts):
            out.append(self._files(media))
        return out

    def _say(self, text: str) -> list[BaseEvent]:
        if not text:
            return []
        out: list[BaseEvent] = []
        if self._open is None:
            self._open = self._last = self._new()
            out.append(
                TextMessageStartEvent(
                    message_id=self._open.id, role="assistant", name=self.name, subagent_run_id=self.owner
                )
            )
        self._open.content = (self._open.content or "") + text
        out.append(TextMessageContentEvent(message_id=self._open.id, delta=text, subagent_run_id=self.owner))
        return out

    def _new(self) -> AssistantMessage:
        self._count += 1
        message_id = self._transcript.id_of(self._task_id, self._attempt, self._count)
        self._of_attempt.append(message_id)
        self._last = self._transcript.assistant(message_id, self.name, self.owner)
        return self._last

    def _files(self, media: Sequence[object]) -> BaseEvent:
        content = {"parts": [part.model_dump(by_alias=True) for part in media]}  # type: ignore[attr-defined]
        message_id = self._transcript.id_of(self._task_id, self._attempt, "files")
        return ActivitySnapshotEvent(
            message_id=message_id, activity_type=CONTENT, content=content, subagent_run_id=self.owner
        )


def _same(said: str, text: str) -> bool:
    """Whether two texts say the same: also the same JSON, written otherwise."""
    if said.strip() == text.strip():
        return True
    value = json_or(said, said)
    return value == json_or(text, text) and isinstance(value, dict | list)
