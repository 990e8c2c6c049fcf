"""Questions of runs to people."""

from __future__ import annotations

from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.types.enum_name import enum_name
from archon.types.message_view import MessageView
from archon.types.part import Part, to_parts
from archon.types.plan import Plan
from archon.types.question_terms import QuestionTerms
from archon.wire import parts_text, to_seconds


class RunQuestion(MessageView[run_pb2.Question]):
    """A question of a run to a person, which `Client.respond` answers. Times are in seconds since the epoch; 0 if they
    are not set."""

    __slots__ = ()

    _SHOWN = ("input_id", "role", "state", "text")

    @property
    def input_id(self) -> str:
        """The question's id, unique in the run."""
        return self.proto.input_id

    @property
    def run_id(self) -> str:
        """The run that asks."""
        return self.proto.run_id

    @property
    def task_id(self) -> str:
        """The task that asks."""
        return self.proto.task_id

    @property
    def role(self) -> str:
        """The role that asks."""
        return self.proto.role

    @property
    def prompt(self) -> tuple[Part, ...]:
        """The question."""
        return to_parts(self.proto.prompt)

    @property
    def text(self) -> str:
        """The question as text, in which names and types stand for files."""
        return parts_text(self.proto.prompt)

    @property
    def schema_json(self) -> str:
        """JSON Schema of the answer; empty: free text. Of an approval, the replacement's schema."""
        return self.proto.schema_json

    @property
    def is_approval(self) -> bool:
        """Whether a decision is expected: approve, reject or modify."""
        return self.proto.kind == question_pb2.QUESTION_KIND_APPROVAL

    @property
    def state(self) -> str:
        """`pending`, `approved` (also: answered), `rejected`, `timed_out` or `cancelled`; empty if unknown."""
        return enum_name(question_pb2.QuestionState, "QUESTION_STATE_", self.proto.state)

    @property
    def terms(self) -> QuestionTerms | None:
        """The approvers and the time limit; None: anyone, without limit."""
        return QuestionTerms.from_proto(self.proto.terms) if self.proto.HasField("terms") else None

    @property
    def breakpoint(self) -> str:
        """The breakpoint that holds the run with it, such as `tool:pay`; empty if it is no breakpoint's."""
        if self.proto.terms.trigger != question_pb2.TRIGGER_BREAKPOINT:
            return ""
        return self.proto.terms.rule.removeprefix("breakpoint ")

    @property
    def approvers(self) -> tuple[str, ...]:
        """The identities that may answer now; empty: any."""
        return tuple(self.proto.approvers)

    @property
    def subject_json(self) -> str:
        """The subject of an approval: one JSON object; empty if the text says all."""
        return self.proto.subject_json

    @property
    def create_time(self) -> float:
        """When the question was asked."""
        return to_seconds(self.proto.create_time)

    @property
    def expire_time(self) -> float:
        """When the question, or the turn of its approver, times out; 0 if it does not."""
        return to_seconds(self.proto.expire_time)

    @property
    def plan(self) -> Plan | None:
        """The plan that waits for approval."""
        return Plan.from_proto(self.proto.plan) if self.proto.HasField("plan") else None

    @property
    def identity(self) -> str:
        """The identity that answered, of a closed question; empty if none did."""
        return self.proto.identity
