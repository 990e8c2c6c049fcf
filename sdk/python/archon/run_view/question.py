"""Questions of tasks to people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Question:
    """A question to a person. Times are in seconds since the epoch; 0 if the event has not occurred."""

    input_id: str
    """The id by which `Client.respond` answers it."""
    role: str
    text: str = ""
    schema_json: str = ""
    """JSON Schema of the answer; empty if any answer is valid."""
    is_approval: bool = False
    """Whether a decision is expected: approve, reject or modify."""
    attempt: int = 0
    """Number of the attempt that asked."""
    continues: bool = False
    """Whether the attempt goes on meanwhile; otherwise it has ended with the question."""
    asked: float = 0.0
    ended: float = 0.0
    """The time of the answer, or at which it was withdrawn."""
    answer: str | None = None
    """Text of the answer, which is encrypted if it is secret; None if there is none."""
    decision: str = ""
    """`approve`, `reject` or `modify`; empty if the question is no approval."""
    identity: str = ""
    """The identity that answered."""
    timed_out: str = ""
    """The policy that was applied when no answer came in time: `abort`, `default` or `escalate`."""
    breakpoint: str = ""
    """The breakpoint that holds the run with it, such as `tool:pay`; empty if it is no breakpoint's."""
    rule: str = ""
    """The rule by which it timed out; empty if an agent asked by itself."""
