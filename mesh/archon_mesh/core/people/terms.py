"""The terms of a question to a person: its subject, its approvers, its timeout, and the policy if no answer comes."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from archon_mesh.core.value import value

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds that a person has to answer, unless a rule or a tool says otherwise."""

MAX_TIMEOUT: Final = 30 * 86_400.0
"""The longest time to answer, in seconds."""

MAX_APPROVERS: Final = 20

MAX_DEFAULT: Final = 16 * 1024
"""Characters of a default answer."""

APPROVE: Final = "approve"
REJECT: Final = "reject"


class QuestionKind(IntEnum):
    """The kind of answer that a question expects, with the numbers of the contract's QuestionKind."""

    UNSPECIFIED = 0
    INPUT = 1
    APPROVAL = 2


class Decision(IntEnum):
    """A person's decision about an approval, with the numbers of the contract's Decision."""

    UNSPECIFIED = 0
    APPROVE = 1
    REJECT = 2
    MODIFY = 3


class TimeoutPolicy(IntEnum):
    """The policy if no answer comes in time, with the numbers of the contract's TimeoutPolicy."""

    UNSPECIFIED = 0
    ABORT = 1
    DEFAULT = 2
    ESCALATE = 3


class QuestionState(IntEnum):
    """The state of a question, with the numbers of the contract's QuestionState."""

    UNSPECIFIED = 0
    PENDING = 1
    APPROVED = 2
    REJECTED = 3
    TIMED_OUT = 4
    CANCELLED = 5


class Trigger(IntEnum):
    """The point at which a rule applies, with the numbers of the contract's Trigger."""

    UNSPECIFIED = 0
    TOOL = 1
    PLAN = 2
    REPLAN = 3
    CHECKPOINT = 4
    CONFIDENCE = 5
    ERROR = 6
    BREAKPOINT = 7


@value
class QuestionTerms:
    """Who may answer (`approvers` are identities; empty: any), within `timeout` seconds (0: no limit), and the policy
    if no answer comes. `default` is `approve`, `reject` or the text of an answer. `rule` is the name of the rule that
    causes the question, and `trigger` its trigger; empty and 0 if an agent asks by itself."""

    rule: str = ""
    approvers: tuple[str, ...] = ()
    timeout: float = 0.0
    on_timeout: int = TimeoutPolicy.ABORT
    default: str = ""
    trigger: int = Trigger.UNSPECIFIED

    def asked_at(self, level: int) -> tuple[str, ...]:
        """Returns the identities that may answer once `level` approvers have let their time pass."""
        if self.on_timeout != TimeoutPolicy.ESCALATE:
            return self.approvers
        return self.approvers[: level + 1]

    def policy_after(self, level: int) -> TimeoutPolicy:
        """Returns the policy for when the time of the approver `level`, from 0, has passed."""
        if self.on_timeout != TimeoutPolicy.ESCALATE:
            return TimeoutPolicy.DEFAULT if self.on_timeout == TimeoutPolicy.DEFAULT else TimeoutPolicy.ABORT
        if level + 1 < len(self.approvers):
            return TimeoutPolicy.ESCALATE
        return TimeoutPolicy.DEFAULT if self.default else TimeoutPolicy.ABORT


NO_TERMS: Final = QuestionTerms()


@value
class DefaultAnswer:
    """The content of a default answer, where a person's is a message of the contract."""

    input_id: str
    text: str
    decision: Decision


def decision_of(text: str) -> Decision:
    """Returns the decision that a text says by itself; UNSPECIFIED for any other text."""
    word = text.strip().lower().rstrip(".!")
    if word in ("approve", "approved", "yes", "y", "ok"):
        return Decision.APPROVE
    return Decision.REJECT if word in ("reject", "rejected", "no", "n") else Decision.UNSPECIFIED


def terms_mistakes(terms: QuestionTerms) -> list[tuple[str, str]]:
    """Returns the mistakes in terms, each with its field."""
    mistakes = []
    if not 0 <= terms.timeout <= MAX_TIMEOUT:
        mistakes.append(("timeout", f"must be 0 to {MAX_TIMEOUT:,.0f} seconds"))
    if terms.on_timeout == TimeoutPolicy.DEFAULT and not terms.default:
        mistakes.append(("default", "is missing: with on_timeout default it is the answer"))
    if terms.on_timeout == TimeoutPolicy.ESCALATE and not terms.approvers:
        mistakes.append(("approvers", "is missing: with on_timeout escalate it lists who is asked in turn"))
    if len(terms.approvers) > MAX_APPROVERS:
        mistakes.append(("approvers", f"has more than {MAX_APPROVERS} identities"))
    if len(terms.default) > MAX_DEFAULT:
        mistakes.append(("default", f"has more than {MAX_DEFAULT:,} characters"))
    return mistakes
