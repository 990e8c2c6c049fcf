"""What a handler is given, and what it may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon.api.common.v1 import common_pb2
from archon.errors import FailedPrecondition, FrameTooLarge

MAX_CHECKPOINT = 1024 * 1024
MAX_TURN = 512 * 1024


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One upstream answer: which role's, its text, its version (0: straight from the run's journal)."""

    role: str
    text: str
    version: int
    metadata: Mapping[str, str]
    proto: common_pb2.ContextItem


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """One message of a conversation. `role` is system, user, assistant or tool; `parts` go before `text`. Keys of
    `metadata` in reverse DNS."""

    role: str
    text: str = ""
    parts: Sequence[common_pb2.Part] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's answer where a plain string doesn't say enough. `parts` go before `text`.

    `new_history` is what the role is to remember of it in the task's session, where it is a stateful one; None: what
    it was asked and what it answers.
    """

    text: str = ""
    parts: Sequence[common_pb2.Part] = ()
    usage: common_pb2.Usage | None = None
    publish: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)
    new_history: Sequence[HistoryMessage] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Return it from a handler to ask a person: the attempt is over, its slot free, and the run's clock stands. The
    answer comes with the next attempt, on any instance, as `task.inputs`, beside `checkpoint` as `task.checkpoint`.

    `schema_json` is a JSON Schema (2020-12) that the answer must fit, empty for free text. `input_id` is unique in the
    task; where it is empty it is made of the attempt. `parts` go before `text`.
    """

    text: str = ""
    schema_json: str = ""
    checkpoint: bytes = b""
    input_id: str = ""
    parts: Sequence[common_pb2.Part] = ()


@dataclass(frozen=True, slots=True)
class DelegationTarget:
    """A role that a coordinating task may delegate to."""

    role: str
    description: str


@dataclass(frozen=True, slots=True)
class Delegated:
    """What another role answered. `memoized`: an earlier attempt at this task had paid for it."""

    text: str
    parts: Sequence[common_pb2.Part]
    usage: common_pb2.Usage
    memoized: bool
    metadata: Mapping[str, str]


class TaskRejected(FailedPrecondition):
    """Raise it in a handler: this role refuses the task. That is final."""

    default_reason = "REJECTED"


def checked_checkpoint(data: bytes) -> bytes:
    """The bytes as they are. Raises FrameTooLarge above 1 MiB."""
    if len(data) > MAX_CHECKPOINT:
        raise FrameTooLarge(f"a checkpoint of {len(data):,} bytes; at most {MAX_CHECKPOINT:,} are kept")
    return data
