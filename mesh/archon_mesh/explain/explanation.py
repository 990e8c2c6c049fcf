"""Explanations of runs: facts with the events that prove them, the confidence, and the complete record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from archon.plain_text import iso_time


class Audience(StrEnum):
    """Whom an explanation is for: a paragraph, the conclusion with its evidence, or the complete record."""

    USER = "user"
    DEVELOPER = "developer"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence about a run, and the sequence numbers of the events that prove it; none if it follows from the run as
    a whole. `kind` is goal, outcome, work, answer, plan, delegation, decision, person, trouble, cost, tools or
    rating."""

    kind: str
    text: str
    seqs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure the answer is, by rules: `value` is the lowest confidence that answers, votes or ratings state, from 0
    to 1, None if none does. `level` is high (from 0.8 on), medium (from 0.5 on), low or unknown, one lower for each
    reason in `doubts`, such as a missing context."""

    level: str
    value: float | None
    reasons: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One event of the record: its number, its time in seconds since the epoch, the seconds since the submit, whom it
    concerns (a task with its attempt, or `run`), its kind, and a sentence."""

    seq: int
    time: float
    offset: float
    subject: str
    kind: str
    text: str
    task_id: str = ""
    attempt: int = 0

    @property
    def iso_time(self) -> str:
        """The time in UTC, to the millisecond."""
        return iso_time(self.time)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a run. `conclusion` is its outcome in a sentence. Without events (`expired`), which have been
    deleted, it has fewer facts, and no record."""

    run_id: str
    state: str
    conclusion: str
    confidence: Confidence
    facts: tuple[Fact, ...]
    record: tuple[RecordLine, ...] = ()
    expired: bool = False

    def paragraph(self) -> str:
        """Returns all facts and the confidence as one paragraph."""
        return " ".join([*(fact.text for fact in self.facts), confidence_text(self.confidence)])

    def document(self, audience: Audience) -> dict[str, Any]:
        """Returns the JSON form for an audience: the text for users, with the conclusion, the evidence and the
        confidence for developers, and with the record as well for auditors."""
        document: dict[str, Any] = {"run_id": self.run_id, "for": str(audience), "state": self.state}
        if audience is Audience.USER:
            return document | {"text": self.paragraph(), "confidence": asdict(self.confidence)}
        document |= {
            "conclusion": self.conclusion,
            "confidence": asdict(self.confidence),
            "evidence": [asdict(fact) for fact in self.facts],
            "events_deleted": self.expired,
        }
        if audience is Audience.AUDITOR:
            document["record"] = [asdict(line) | {"time_utc": line.iso_time} for line in self.record]
        return document


def confidence_text(confidence: Confidence) -> str:
    """Returns the confidence as a sentence."""
    doubts = f", lowered because {listed(confidence.doubts)}" if confidence.doubts else ""
    if confidence.value is None:
        if not confidence.doubts:
            return "Nothing in the run states how sure the answer is."
        return f"Confidence: low, because {listed(confidence.doubts)}."
    return f"Confidence: {confidence.level} ({confidence.value:.2g} of 1: {listed(confidence.reasons)}){doubts}."


def sentence(text: str) -> str:
    """Returns a text with a full stop at its end, unless it ends with one, also of a quotation."""
    return text if text.endswith((".", "?", "!", '."', '?"', '!"', '…"')) else text + "."


def listed(texts: Sequence[str]) -> str:
    """Returns texts as `a, b and c`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1]))) if texts else ""


HIGH: Final = 0.8
MEDIUM: Final = 0.5
_LEVELS: Final = ("low", "medium", "high")


def confidence_of(values: Sequence[tuple[float, str]], doubts: Sequence[str]) -> Confidence:
    """Returns the confidence that stated values, each with its source, and doubts give."""
    if not values:
        return Confidence("low" if doubts else "unknown", None, (), tuple(doubts))
    lowest = min(value for value, _ in values)
    level = 2 if lowest >= HIGH else 1 if lowest >= MEDIUM else 0
    reasons = tuple(f"{source} {value:.2g}" for value, source in values)
    return Confidence(_LEVELS[max(0, level - len(doubts))], lowest, reasons, tuple(doubts))
