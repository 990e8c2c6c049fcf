"""Reads the labelled memories and questions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import yaml

MEANING_KINDS: Final = ("paraphrase", "language", "irrelevant")
FOLDER: Final = Path(__file__).parent
Half = Literal["tuning", "final"]
HALVES: Final[tuple[Half, Half]] = ("tuning", "final")
KINDS: Final = ("keyword", "paraphrase", "typo", "number", "name", "time", "preference", "several")


@dataclass(frozen=True, slots=True)
class LabelledMemory:
    """A memory of one user; `created_at` is in seconds since the Unix epoch."""

    key: str
    user: str
    created_at: float
    role: str
    type: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question of one user with the keys of the memories that answer it."""

    kind: str
    user: str
    text: str
    expected: frozenset[str]


def memories() -> list[LabelledMemory]:
    """Returns all memories."""
    users = yaml.safe_load((FOLDER / "memories.yaml").read_text())
    return [
        LabelledMemory(key, user, datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp(), role, kind, text)
        for user, entries in users.items()
        for key, (day, role, kind, text) in entries.items()
    ]


def questions(half: Half) -> list[Question]:
    """Returns the questions of one half."""
    rows = yaml.safe_load((FOLDER / f"questions_{half}.yaml").read_text())
    return [Question(kind, user, text, frozenset(expected)) for kind, user, text, expected in rows]


def questions_of_meaning() -> list[Question]:
    """Returns the questions that share few words with their answers."""
    rows = yaml.safe_load((FOLDER / "questions_meaning.yaml").read_text())
    return [Question(kind, user, text, frozenset(expected)) for kind, user, text, expected in rows]
