"""Values that a handler receives and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon.api.common.v1 import common_pb2
from archon.errors import FailedPrecondition, FrameTooLarge
from archon.propagation import PropagationPolicy
from archon.surrogates import without_surrogates
from archon.types.part import Part, to_messages, to_parts
from archon.types.usage import Usage
from archon.wire import policy_from_proto

MAX_CHECKPOINT = 1024 * 1024
MAX_TURN = 512 * 1024

SESSION_KEY = "dev.archon/session"
"""The key of a task's metadata that names the session of its run, if the task has no conversation in it."""


@dataclass(frozen=True, slots=True)
class ContextItem:
    """The answer of an upstream role. `version` is 0 if it comes from the run itself, not from shared memory."""

    role: str
    text: str
    version: int
    metadata: Mapping[str, str]
    proto: common_pb2.ContextItem

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the answer."""
        return to_parts(self.proto.parts)

    @property
    def policy(self) -> PropagationPolicy:
        """The kind of content: the least policy of an edge that lets the item through."""
        return policy_from_proto(self.proto.policy)


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """One message of the session history. `role` is system, user, assistant or tool; `parts` precede `text`. Keys of
    `metadata` are in reverse DNS."""

    role: str
    text: str = ""
    parts: Sequence[Part] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """An item to publish beside a role's answer, for edges of this `policy` or a wider one. `parts` precede `text`; an
    item without text is not published."""

    text: str = ""
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    parts: Sequence[Part] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a handler, if a plain string is not enough. `parts` precede `text`.

    `new_history` is a stateful role's addition to its session history; by default the question and the answer. `items`
    are published right after the answer: to the edges that let one of them through it comes in place of the answer.
    They are left out if the result would be too large with them. `used` are the items of the task's `context` that the
    answer rests on: if others change, it need not be given anew. By default, and if it is empty, it rests on all.
    """

    text: str = ""
    parts: Sequence[Part] = ()
    usage: Usage | None = None
    publish: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)
    new_history: Sequence[HistoryMessage] | None = None
    items: Sequence[Item] = ()
    used: Sequence[ContextItem] = ()


@dataclass(frozen=True, slots=True)
class DelegationTarget:
    """A role that a coordinator may delegate to."""

    role: str
    description: str


@dataclass(frozen=True, slots=True)
class Delegated:
    """The answer to a delegation. `memoized`: an earlier attempt at this task had made the same delegation."""

    text: str = ""
    parts: Sequence[Part] = ()
    usage: Usage = field(default_factory=Usage)
    memoized: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace (W3C Trace Context): the values of the headers `traceparent` and `tracestate`."""

    traceparent: str = ""
    tracestate: str = ""

    @property
    def proto(self) -> common_pb2.TraceContext:
        """The place as a message."""
        return common_pb2.TraceContext(traceparent=self.traceparent, tracestate=self.tracestate)

    @classmethod
    def from_proto(cls, message: common_pb2.TraceContext) -> TraceContext:
        """Returns the place that a message has."""
        return cls(message.traceparent, message.tracestate)


class TaskRejected(FailedPrecondition):
    """Raise it in a handler to reject the task for good: no other instance of the role is tried."""

    default_reason = "REJECTED"


def checked_checkpoint(data: bytes) -> bytes:
    """Returns the bytes. Raises FrameTooLarge above 1 MiB."""
    if len(data) > MAX_CHECKPOINT:
        raise FrameTooLarge(f"a checkpoint of {len(data):,} bytes is larger than the limit of {MAX_CHECKPOINT:,}")
    return data


def parts_of(item: Item) -> list[common_pb2.Part]:
    """The content of an item on the wire."""
    text = [common_pb2.Part(text=without_surrogates(item.text))] if item.text else []
    return [*to_messages(item.parts), *text]
