"""The file of retention rules.

    summaries: forever
    details:
      - {keep: forever, marked: true}
      - {keep: 90d, states: [failed]}
      - {keep: 30d, tenants: [acme], labels: {team: "search-*"}}
      - {keep: 30d, sample: 0.01}
    otherwise: 1d

The first rule that holds decides. Times are a number of seconds, a number with s, min, h or d, or `forever`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pydantic
from pydantic import BeforeValidator, Field

from archon_mesh.declared.document import Document, Key
from archon_mesh.declared.mistakes import mistakes
from archon_mesh.declared.part import Part
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.retention.rules import FOREVER, DetailsRule, RetentionRules

MAX_RULES: Final = 100
MAX_CONDITIONS: Final = 100
MAX_SECONDS: Final = 100 * 365 * 86_400.0

_UNITS: Final = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)")

State = Literal["completed", "failed", "canceled", "rejected"]


def _seconds(given: Any) -> float:
    if given == "forever":
        return FOREVER
    if isinstance(given, str) and (match := _TIME.fullmatch(given)):
        seconds = float(match[1]) * _UNITS[match[2]]
    elif isinstance(given, (int, float)) and not isinstance(given, bool):
        seconds = float(given)
    else:
        raise ValueError("expected a number of seconds, a time such as 12h or 30d, or forever")
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError("must be above 0 and at most 100 years; forever has no end")
    return seconds


Seconds = Annotated[float, BeforeValidator(_seconds)]


class DetailsPart(Part):
    """How long the details (events, recorded calls, messages) of some runs are kept."""

    keep: Seconds = Field(description="time after the end of the run: seconds, or with s, min, h or d, or `forever`")
    states: list[State] = Field(default_factory=list, description="states in which the run ended")
    tenants: list[str] = Field(default_factory=list, max_length=MAX_CONDITIONS, description="patterns of tenants")
    labels: dict[str, str] = Field(
        default_factory=dict, max_length=MAX_CONDITIONS, description="metadata of the run, with patterns of values"
    )
    marked: bool | None = Field(default=None, description="whether a person marked the run: `archon mark`")
    sample: float = Field(default=1.0, ge=0, le=1, description="part of the runs, by a hash of the run's id")

    def rule(self) -> DetailsRule:
        """Returns the rule of the part."""
        states = frozenset(int(TaskState[state.upper()]) for state in self.states)
        return DetailsRule(self.keep, states, tuple(self.tenants), dict(self.labels), self.marked, self.sample)


class RetentionFile(Part):
    """The rules of retention of a mesh."""

    summaries: Seconds = Field(default=FOREVER, description="how long summaries are kept; by default for ever")
    details: list[DetailsPart] = Field(
        default_factory=list, max_length=MAX_RULES, description="rules; the first one that holds for a run decides"
    )
    otherwise: Seconds | None = Field(
        default=None, description="how long the details of all other runs are kept; by default ARCHON_COMPACT_AFTER"
    )


_KEYS: Final = (*RetentionFile.model_fields, *DetailsPart.model_fields)


def read_retention(path: Path, compact_after: float) -> RetentionRules:
    """Reads a file. Raises NotFound, and InvalidArgument with file, line and key, also if details would be kept longer
    than summaries."""
    document = Document(path, None)
    try:
        file = RetentionFile.model_validate(document.value)
    except pydantic.ValidationError as error:
        raise document.errors(mistakes(document, error, _KEYS)) from None
    otherwise = compact_after if file.otherwise is None else file.otherwise
    wrong: list[tuple[Key, str]] = [
        (("details", index, "keep"), "details cannot be kept longer than summaries")
        for index, part in enumerate(file.details)
        if part.keep > file.summaries
    ]
    if otherwise > file.summaries:
        wrong.append((("summaries",), "details cannot be kept longer than summaries"))
    if wrong:
        raise document.errors(wrong)
    return RetentionRules(otherwise, file.summaries, tuple(part.rule() for part in file.details))
