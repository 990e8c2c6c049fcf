"""The decision of an arbiter between answers that differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from archon.json_text import json_object

PREFIX: Final = "dev.archon.verdict/"
"""The keys of the metadata of an arbiter's answer begin with it."""

MAX_NOTE: Final = 2_000
"""Characters of each text of a verdict."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of an arbiter, which the metadata of its answer has.

    `way` is how it was decided: `method`, `verify`, `model`, `reviewer`, `person`, or `agreement` if no answers differ.
    `winner` is the step whose answer was chosen; empty if a person gave another one. `tried` has the ways that did not
    decide, with their reasons, `redone` the new answers of those that were asked to do their work again, by step.
    """

    way: str
    winner: str = ""
    reason: str = ""
    tried: Mapping[str, str] = field(default_factory=dict)
    redone: Mapping[str, str] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that has the verdict; long texts are cut."""
        texts = {"way": self.way, "winner": self.winner, "reason": self.reason[:MAX_NOTE]}
        for name, values in (("tried", self.tried), ("redone", self.redone)):
            if values:
                cut = {key: value[:MAX_NOTE] for key, value in values.items()}
                texts[name] = json.dumps(cut, ensure_ascii=False)
        return {f"{PREFIX}{name}": text for name, text in texts.items() if text}

    @classmethod
    def in_metadata(cls, metadata: Mapping[str, str]) -> Verdict | None:
        """Returns the verdict that the metadata of an answer has; None if it has none."""
        texts = {key.removeprefix(PREFIX): value for key, value in metadata.items() if key.startswith(PREFIX)}
        if not texts.get("way"):
            return None
        tried, redone = (_texts(texts.get(name, "")) for name in ("tried", "redone"))
        return cls(texts["way"], texts.get("winner", ""), texts.get("reason", ""), tried, redone)


def _texts(text: str) -> dict[str, str]:
    return {key: value for key, value in (json_object(text) or {}).items() if isinstance(value, str)}
