"""The choices that learned weights made for a run, as its metadata records them; and the names by which a role declares
its prompt variants."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import InvalidArgument

CHOICES_KEY: Final = "dev.archon.learned"
"""The key of a run's metadata that holds its choices: one JSON object."""

VARIANTS_TAG: Final = "dev.archon.prompt-variants"
"""The tag of a registration that names the prompt variants of the role, separated by commas."""

DEFAULT_VARIANT: Final = "default"
"""The variant that is the system prompt itself."""

MAX_VARIANTS: Final = 10
"""Prompt variants of a role besides `default`."""


VARIANT: Final = re.compile(r"[a-z][a-z0-9-]{0,19}")
"""The form of a variant's name."""


def check_variants(variants: Mapping[str, str], owner: str) -> None:
    """Raises InvalidArgument if there are more than MAX_VARIANTS, a name is invalid, or a prompt is empty."""
    if len(variants) > MAX_VARIANTS:
        raise InvalidArgument(f"{owner}: more than {MAX_VARIANTS} prompt variants")
    for name, prompt in variants.items():
        if not VARIANT.fullmatch(name) or name == DEFAULT_VARIANT:
            message = f"{owner}: invalid name {name!r} of a prompt variant: expected a-z, 0-9 and -, not `default`"
            raise InvalidArgument(message)
        if not prompt.strip():
            raise InvalidArgument(f"{owner}: the prompt variant {name!r} is empty")


@dataclass(frozen=True, slots=True)
class RoleChoice:
    """The choices for one role: the prompt variant (empty: none was chosen) with the weights of all variants, and the
    tools that are offered last. `weight` is the role's own, `instances` has the weights of its instances, if they are
    not 1."""

    variant: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    tools_last: tuple[str, ...] = ()
    weight: float = 1.0
    instances: Mapping[str, float] = field(default_factory=dict)


NO_CHOICE: Final = RoleChoice()


@dataclass(frozen=True, slots=True)
class LearnedChoices:
    """The choices for a run, by role, and the version of the learned weights that made them."""

    version: int = 0
    roles: Mapping[str, RoleChoice] = field(default_factory=dict)

    def of(self, role: str) -> RoleChoice:
        """Returns the choices for a role; NO_CHOICE if nothing was learned for it."""
        return self.roles.get(role, NO_CHOICE)


def read_choices(metadata: Mapping[str, str]) -> LearnedChoices:
    """Returns the choices in the metadata of a run or a task; none if they are missing or cannot be read."""
    if not (text := metadata.get(CHOICES_KEY, "")):
        return LearnedChoices()
    try:
        data = json.loads(text)
        return LearnedChoices(int(data["version"]), {str(role): _choice(each) for role, each in data["roles"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return LearnedChoices()


def _choice(data: Mapping[str, Any]) -> RoleChoice:
    return RoleChoice(
        str(data.get("variant", "")),
        _numbers(data.get("weights", {})),
        tuple(map(str, data.get("tools_last", ()))),
        float(data.get("weight", 1.0)),
        _numbers(data.get("instances", {})),
    )


def _numbers(data: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(weight) for name, weight in data.items()}


def variants_tag(names: Sequence[str]) -> str:
    """Returns the text of VARIANTS_TAG for these variants, `default` among them; empty if there are none."""
    return ",".join([DEFAULT_VARIANT, *(name for name in names if name != DEFAULT_VARIANT)]) if names else ""


def variants_of(tags: Mapping[str, str]) -> list[str]:
    """Returns the prompt variants that the tags of a registration name."""
    names = [name.strip() for name in tags.get(VARIANTS_TAG, "").split(",")]
    return sorted({name for name in names if name})[: MAX_VARIANTS + 1]
