"""The things that an answer rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SourceKind(StrEnum):
    """The kind of a source."""

    ANSWER = "answer"
    """The answer, or an item, of a task of the run."""
    GOAL = "goal"
    INPUT = "input"
    """An input that a caller gave in place of the goal."""
    REQUEST = "request"
    """The input of a delegated task."""
    MEMORY = "memory"
    """An answer of the session's shared memory."""
    RUN = "run"
    """An answer of the run that this one was forked from."""
    MODEL = "model"
    """A call of a model."""
    TOOL = "tool"
    """The result of a tool."""
    MESSAGE = "message"
    PERSON = "person"
    """A person's answer to a question, or decision about an approval."""
    EDIT = "edit"
    """An answer that a caller gave in place of the recorded one."""


@dataclass(frozen=True, slots=True)
class Source:
    """A thing that an answer rests on. `id` is unique in the provenance; `seq` the event of the run that holds it, 0 if
    none does; `text` its content, empty if it was not recorded. `version` and `scope` are those in the shared memory,
    `run_id` the other run of an answer that is not of this one."""

    id: str
    kind: SourceKind
    label: str
    seq: int = 0
    text: str = ""
    task_id: str = ""
    detail: str = ""
    """More about it, in a clause: `reused`, or how a rule decided."""
    version: int = 0
    scope: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """The source `of` rests on the source `on`; `how` is a clause."""

    of: str
    on: str
    how: str
