"""Values that a handler receives and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, question_pb2
from archon.errors import FailedPrecondition, FrameTooLarge
from archon.propagation import PropagationPolicy
from archon.surrogates import without_surrogates
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
    def policy(self) -> PropagationPolicy:
        """The kind of content: the least policy of an edge that lets the item through."""
        return policy_from_proto(self.proto.policy)


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """One message of the session history. `role` is system, user, assistant or tool; `parts` precede `text`. Keys of
    `metadata` are in reverse DNS."""

    role: str
    text: str = ""
    parts: Sequence[common_pb2.Part] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """What a role publishes beside its answer, for edges of this `policy` or a wider one. `parts` precede `text`; an
    item without text is not published."""

    text: str = ""
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    parts: Sequence[common_pb2.Part] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a handler, if a plain string is not enough. `parts` precede `text`.

    `new_history` is what a stateful role adds to its session history; by default the question and the answer. `items`
    are published right after the answer: to the edges that let one of them through it comes in place of the answer.
    They are left out if the result would be too large with them.
    """

    text: str = ""
    parts: Sequence[common_pb2.Part] = ()
    usage: common_pb2.Usage | None = None
    publish: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)
    new_history: Sequence[HistoryMessage] | None = None
    items: Sequence[Item] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """Return it from a handler to ask a person. The attempt ends and frees its slot, and the run's clock stops. The
    next attempt, on any instance, receives the answer as `task.inputs` and `checkpoint` as `task.checkpoint`.

    `schema_json` is a JSON Schema (2020-12) that the answer must match; empty means free text. `input_id` is unique in
    the task; if empty it is derived from the attempt. `parts` precede `text`.

    With the `kind` QUESTION_KIND_APPROVAL a decision is expected: approve, reject or modify, where the schema is that
    of the modification, and `subject_json` what the decision is about. `terms` say who may answer, in what time, and
    what follows if no answer comes; None: anyone, without limit.
    """

    text: str = ""
    schema_json: str = ""
    checkpoint: bytes = b""
    input_id: str = ""
    parts: Sequence[common_pb2.Part] = ()
    kind: question_pb2.QuestionKind.ValueType = question_pb2.QUESTION_KIND_UNSPECIFIED
    terms: question_pb2.QuestionTerms | None = None
    subject_json: str = ""

    def to_request(self, input_id: str) -> agent_pb2.InputRequest:
        """Returns the question on the wire."""
        request = agent_pb2.InputRequest(input_id=input_id, schema_json=self.schema_json, kind=self.kind)
        request.prompt.extend(self.parts)
        if self.text:
            request.prompt.add(text=without_surrogates(self.text))
        if self.terms is not None:
            request.terms.CopyFrom(self.terms)
        request.subject_json = self.subject_json
        return request


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """A person's answer to a question. With a `decision`, the text is its reason or the modification. `identity` is
    empty if the default answer counts because no answer came in time."""

    input_id: str
    text: str
    parts: Sequence[common_pb2.Part] = ()
    decision: question_pb2.Decision.ValueType = question_pb2.DECISION_UNSPECIFIED
    identity: str = ""


@dataclass(frozen=True, slots=True)
class DelegationTarget:
    """A role that a coordinator may delegate to."""

    role: str
    description: str


@dataclass(frozen=True, slots=True)
class Delegated:
    """The answer to a delegation. `memoized`: an earlier attempt at this task had made the same delegation."""

    text: str
    parts: Sequence[common_pb2.Part]
    usage: common_pb2.Usage
    memoized: bool
    metadata: Mapping[str, str]


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
    return [*item.parts, *text]
