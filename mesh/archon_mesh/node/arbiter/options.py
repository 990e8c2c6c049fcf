"""The options of an arbiter: the ways that it tries, and the roles and people that it asks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.identifiers import check_role
from archon_mesh.core.people.terms import DEFAULT_TIMEOUT, MAX_APPROVERS, MAX_DEFAULT, MAX_TIMEOUT

METHOD: Final = "method"
VERIFY: Final = "verify"
MODEL: Final = "model"
REVIEWER: Final = "reviewer"
PERSON: Final = "person"

ARBITER_WAYS: Final = (METHOD, VERIFY, MODEL, REVIEWER, PERSON)
"""The ways of an arbiter, in the order in which they are tried unless another is given."""

OPTION_PREFIX: Final = "dev.archon.arbiter/"
"""The keys of a run's metadata that replace options of the arbiter begin with it: `ways` (separated by commas),
`verifier`, `reviewer` and `redo` (`true` or `false`)."""

MAX_ASKED_SECONDS: Final = 86_400.0
"""The longest time that a role has to answer an arbiter, in seconds: the limit of a delegation."""


@dataclass(frozen=True, slots=True)
class Arbitration:
    """The options of an arbiter.

    `ways` are tried in their order until one decides. `method` asks each role how it got its answer, and shows it the
    others; `verify` has the role `verifier` check each answer; `model` is the arbiter's own model; `reviewer` is the
    role of that name; `person` asks one of `approvers`, or anyone, for at most `person_seconds`: then `default` counts,
    which is a step or an answer, or the next way is tried if it is empty. A role has `seconds` to answer.

    `by` names the field of JSON answers that is compared; empty: the field `answer` if all of them have it, else whole
    answers are. With `redo` the roles whose answers have lost are asked to do their work again.

    Raises InvalidArgument for an unknown way, one that is there twice, the name of a role that is invalid, and a number
    out of range.
    """

    ways: Sequence[str] = ARBITER_WAYS
    verifier: str = "validator"
    reviewer: str = ""
    approvers: Sequence[str] = ()
    person_seconds: float = DEFAULT_TIMEOUT
    default: str = ""
    seconds: float = 60.0
    by: str = ""
    redo: bool = False

    def __post_init__(self) -> None:
        for name in ("ways", "approvers"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.ways or len(set(self.ways)) < len(self.ways) or not set(self.ways) <= set(ARBITER_WAYS):
            raise InvalidArgument(f"the ways of an arbiter are {', '.join(ARBITER_WAYS)}, each once at most")
        for role in filter(None, (self.verifier, self.reviewer)):
            check_role(role)
        for name, limit in (("seconds", MAX_ASKED_SECONDS), ("person_seconds", MAX_TIMEOUT)):
            if not (math.isfinite(getattr(self, name)) and 0 < getattr(self, name) <= limit):
                raise InvalidArgument(f"{name} of an arbiter must be above 0, and at most {limit:,.0f}")
        if len(self.approvers) > MAX_APPROVERS or len(self.default) > MAX_DEFAULT:
            raise InvalidArgument(f"an arbiter has at most {MAX_APPROVERS} approvers and {MAX_DEFAULT:,} characters")

    def for_run(self, metadata: Mapping[str, str]) -> Arbitration:
        """Returns the options with those that the metadata of a run replaces. Raises InvalidArgument as the type does,
        and for an unknown option."""
        given = {key: text.strip() for key, text in metadata.items() if key.startswith(OPTION_PREFIX)}
        changes: dict[str, Any] = {}
        for key, text in given.items():
            match key.removeprefix(OPTION_PREFIX):
                case "ways":
                    changes["ways"] = tuple(way.strip() for way in text.split(",") if way.strip())
                case "verifier" | "reviewer" as name:
                    changes[name] = text
                case "redo" if text in ("true", "false"):
                    changes["redo"] = text == "true"
                case _:
                    raise InvalidArgument(f"the metadata {key}={text[:100]!r} is no option of an arbiter")
        return replace(self, **changes) if changes else self
