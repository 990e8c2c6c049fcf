"""Terms of questions to people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from archon.api.common.v1 import question_pb2
from archon.errors import InvalidArgument
from archon.types.enum_name import enum_name
from archon.wire import duration, to_seconds

_NAMES: Final[tuple[tuple[str, Any, str], ...]] = (
    ("on_timeout", question_pb2.TimeoutPolicy, "TIMEOUT_POLICY_"),
    ("trigger", question_pb2.Trigger, "TRIGGER_"),
)


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """The approvers of a question, its time limit, and the action without an answer.

    `approvers` are identities in the order in which they are asked; empty: any. `timeout` is in seconds; 0: no limit
    but the run's pause timeout. `on_timeout` is `abort`, `default` or `escalate`; empty means `abort`. `rule` has
    the question asked, at the point `trigger` (`tool`, `plan`, ...); both are empty if an agent asks by itself.

    Raises InvalidArgument for another `on_timeout` or `trigger`.
    """

    rule: str = ""
    approvers: tuple[str, ...] = ()
    timeout: float = 0.0
    on_timeout: str = ""
    default_answer: str = ""
    trigger: str = ""

    def __post_init__(self) -> None:
        for name, enum, prefix in _NAMES:
            _, *known = (each.removeprefix(prefix).lower() for each, _ in enum.items())
            if (value := getattr(self, name)) and value not in known:
                raise InvalidArgument(f"{name} is {value!r}; it can be {', '.join(known)}")

    @property
    def proto(self) -> question_pb2.QuestionTerms:
        """The terms as a message."""
        return question_pb2.QuestionTerms(
            rule=self.rule,
            approvers=self.approvers,
            timeout=duration(self.timeout) if self.timeout else None,
            on_timeout=question_pb2.TimeoutPolicy.Value(f"TIMEOUT_POLICY_{self.on_timeout.upper() or 'UNSPECIFIED'}"),
            default_answer=self.default_answer,
            trigger=question_pb2.Trigger.Value(f"TRIGGER_{self.trigger.upper() or 'UNSPECIFIED'}"),
        )

    @classmethod
    def from_proto(cls, message: question_pb2.QuestionTerms) -> QuestionTerms:
        """Returns the terms that a message has."""
        return cls(
            message.rule,
            tuple(message.approvers),
            to_seconds(message.timeout),
            enum_name(question_pb2.TimeoutPolicy, "TIMEOUT_POLICY_", message.on_timeout),
            message.default_answer,
            enum_name(question_pb2.Trigger, "TRIGGER_", message.trigger),
        )
