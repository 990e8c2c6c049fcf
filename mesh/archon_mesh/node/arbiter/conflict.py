"""The answers in conflict, and the findings about each. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from archon.agent.facts import CONFLICT_TYPE
from archon.answers import agree, field_of
from archon.json_text import json_object
from archon.types import Part

ANSWER_FIELD: Final = "answer"
"""The field that is compared if all answers are JSON objects that have it, unless another is named."""

MAX_CHANGED: Final = 20_000
"""Characters of a changed answer; a longer one is no change."""

MAX_KEPT: Final = 2_000
"""Characters of a method, a check or a reason that are kept."""


@dataclass(frozen=True, slots=True)
class Position:
    """The answer of one step. `said` is the compared part of it: the whole text, or a field; `now` the answer after the
    role was asked for its `method`. `check` is the verifier's reply."""

    step_id: str
    role: str
    said: str
    parts: tuple[Part, ...] = ()
    now: str = ""
    method: str = ""
    check: str = ""

    @property
    def has_changed(self) -> bool:
        """Whether the role has changed its answer."""
        return not agree(self.said, self.now)

    @property
    def name(self) -> str:
        """The step and its role."""
        return f"{self.step_id} of {self.role}" if self.role and self.role != self.step_id else self.step_id


def positions_of(answers: Sequence[tuple[str, str, str, tuple[Part, ...]]], by: str) -> list[Position]:
    """Returns the positions of answers: step, role, text and parts of each. `by` is the field to compare."""
    texts = [text for _, _, text, _ in answers]
    if not by and texts and all(ANSWER_FIELD in (json_object(text) or {}) for text in texts):
        by = ANSWER_FIELD
    made = []
    for step_id, role, text, parts in answers:
        said = field_of(text, by)
        made.append(Position(step_id or role, role, said, parts, now=said))
    return made


def delegated_conflict(parts: Sequence[Part]) -> tuple[str, list[tuple[str, str, str, tuple[Part, ...]]]] | None:
    """Returns the question and the answers of a conflict that a task has delegated, such as one about a fact; None for
    any other input."""
    texts = [part.data_json for part in parts if part.media_type == CONFLICT_TYPE and part.data_json]
    conflict: Any = (json_object(texts[0]) or {}) if len(texts) == 1 else {}
    try:
        answers = [(str(each["step"]), str(each["role"]), str(each["answer"])) for each in conflict["answers"]]
        return str(conflict["question"]), [(*each, (Part(text=each[2]),)) for each in answers]
    except (KeyError, TypeError):
        return None


def groups_of(positions: Sequence[Position]) -> list[list[Position]]:
    """Returns the positions grouped by their answers now; each agrees with the first of its group."""
    groups: list[list[Position]] = []
    for position in positions:
        for group in groups:
            if agree(position.now, group[0].now):
                group.append(position)
                break
        else:
            groups.append([position])
    return groups


def chosen(choice: str, positions: Sequence[Position]) -> Position | None:
    """Returns the position that a choice names: by its step, or by its answer; None if it names none."""
    wanted = choice.strip().strip("\"'`.*")
    for position in positions:
        if wanted.casefold() == position.step_id.casefold():
            return position
    if not wanted:
        return None
    agreeing = [position for position in positions if agree(position.now, choice)]
    return next((each for each in agreeing if not each.has_changed), agreeing[0] if agreeing else None)


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision: how, which step's answer, or the other `text`, and why."""

    way: str
    winner: str
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The findings of an attempt, so that a later one goes on after it."""

    tried: Mapping[str, str] = field(default_factory=dict)
    """The ways that have not decided, with the reasons."""
    known: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The changes of positions, by step: `now`, `method` and `check`."""
    decided: Decided | None = None

    def applied(self, positions: Sequence[Position]) -> list[Position]:
        """Returns the positions with the findings about them."""
        known = [(each, self.known.get(each.step_id)) for each in positions]
        return [
            replace(each, now=of["now"], method=of["method"], check=of["check"]) if of else each for each, of in known
        ]

    def after(self, positions: Sequence[Position]) -> Progress:
        """Returns the progress with the findings about positions now."""
        known = {each.step_id: {"now": each.now, "method": each.method, "check": each.check} for each in positions}
        return replace(self, known=known)

    def to_bytes(self) -> bytes:
        """Returns a checkpoint."""
        decided = self.decided
        ended = None if decided is None else [decided.way, decided.winner, decided.text, decided.reason]
        data = {"tried": dict(self.tried), "known": {key: dict(of) for key, of in self.known.items()}, "decided": ended}
        return json.dumps(data, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, checkpoint: bytes) -> Progress:
        """Returns the progress of a checkpoint; none if it is empty or cannot be read."""
        data: dict[str, Any] = json_object(checkpoint.decode(errors="replace")) or {}
        try:
            known = {
                key: {name: str(of[name]) for name in ("now", "method", "check")} for key, of in data["known"].items()
            }
            decided = None if data["decided"] is None else Decided(*map(str, data["decided"]))
            return cls({key: str(reason) for key, reason in data["tried"].items()}, known, decided)
        except (KeyError, TypeError, AttributeError):
            return cls()
