"""Types as JSON: the fields of each, as they are stored one after the other, in every version of the type that was ever
stored. The encodings of inputs and of events share the types of values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final

from archon_mesh.core.people import (
    Breakpoint,
    BreakpointPoint,
    Condition,
    InterceptionRule,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.engine.plan import ReplanPolicy
from archon_mesh.engine.plan_text import plan_from_json
from archon_mesh.engine.types import (
    Amount,
    Budget,
    ClockOrigin,
    ComparedInstance,
    Edge,
    Failure,
    InstanceChoice,
    Item,
    PlanRules,
    PlanTarget,
    Requirement,
    SessionContextRef,
    Submission,
    Target,
)

VALUES: Final[dict[type, tuple[str, ...]]] = {
    Submission: (
        "run_id tenant request_id session_id strategy roles edges timeout requirements all_ancestors targets budget"
        " session_context pause_timeout parent_run_id rules check_alignment",
        "run_id tenant request_id session_id strategy roles edges timeout requirements all_ancestors targets budget"
        " session_context pause_timeout parent_run_id rules check_alignment plan_rules",
    ),
    PlanRules: (
        "policy max_attempts are_checked permanent_failures",
        "policy max_attempts are_checked permanent_failures has_planner",
    ),
    ReplanPolicy: ("failures_of_subtask consecutive_failures min_confidence max_replans max_alignment_checks",),
    Failure: ("code reason message metadata retry_delay kind failure_class severity retry violations causes",),
    Edge: ("upstream downstream policy",),
    Item: ("policy",),
    SessionContextRef: ("role version readers",),
    Requirement: ("role capability version",),
    Target: ("role description coordinator",),
    PlanTarget: ("role description coordinator capabilities tools seconds cost_micro_usd",),
    Amount: ("tokens cost calls",),
    Budget: ("tokens cost depth calls",),
    InterceptionRule: ("trigger condition priority name approvers timeout on_timeout default message",),
    Condition: ("role tool tenant step confidence_below severity_at_least cost_above",),
    QuestionTerms: ("rule approvers timeout on_timeout default trigger",),
    Breakpoint: ("point name",),
    ClockOrigin: ("boot_id time",),
    InstanceChoice: ("reason compared candidates",),
    ComparedInstance: ("instance_id load factor tasks success_rate mean_seconds p95_seconds mean_cost",),
}
"""The values that inputs and events hold, without payloads. A version that was used never changes. A field that is
added makes a new version; a field that is missing has its default."""

ENUMS: Final[dict[type, dict[str, type[IntEnum]]]] = {
    QuestionTerms: {"on_timeout": TimeoutPolicy, "trigger": Trigger},
    InterceptionRule: {"on_timeout": TimeoutPolicy, "trigger": Trigger},
    Breakpoint: {"point": BreakpointPoint},
}
"""Their fields that are stored as the numbers of an enum."""

PLAN: Final = "Plan"
"""The name of a plan, which is a text of its own, since it has objects in its arguments."""

_NAMES: Final[dict[type, str]] = {SessionContextRef: "Outside", Requirement: "Want"}
"""Names in stored bytes that differ from the class: a stored name never changes."""


class Forms:
    """The stored form of some types. An object is {its class and version: [its fields, as `forms` has them]}; a tuple
    is a list; an enum its number.

    `left_out` are the names of fields that are not stored: they are read as None. `what` names the types in errors.
    `read_value` reads the fields named in `values`.
    """

    def __init__(
        self,
        what: str,
        forms: Mapping[type, tuple[str, ...]],
        enums: Mapping[type, Mapping[str, type[IntEnum]]],
        *,
        left_out: Collection[str] = (),
        values: Collection[str] = (),
        read_value: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self._what = what
        self._enums = enums
        self._values = frozenset(values)
        self._read_value = read_value
        self._left_out = {cls: {f.name: None for f in fields(cls) if f.name in left_out} for cls in forms}
        self._stored = {
            _tag(cls, version): (cls, form.split())
            for cls, known in forms.items()
            for version, form in enumerate(known, 1)
        }
        self.tags = {cls: _tag(cls, len(known)) for cls, known in forms.items()}
        """The name of each type in its last version."""

        self.getters = {cls: _getter(known[-1].split()) for cls, known in forms.items()}
        """Returns the fields of an object of each type, in order."""

    def read(self, stored: Any) -> Any:
        """Returns the value that was stored. Raises ValueError, KeyError or TypeError if it is something else, or of a
        later version."""
        if isinstance(stored, list):
            return tuple(self.read(item) for item in stored)
        if not isinstance(stored, dict):
            return stored
        ((name, packed),) = stored.items()
        if name == PLAN:
            return plan_from_json(packed)
        if (known := self._stored.get(name)) is None:
            raise ValueError(f"{self._what}s of the type {name} cannot be read")
        cls, names = known
        if len(packed) > len(names):
            article = "an" if self._what[0] in "aeiou" else "a"
            raise ValueError(f"{article} {self._what} has more than is known of {name}")
        # What was stored before types had versions may end earlier: later fields have their defaults.
        given = {
            field: self._read_value(held) if field in self._values else self.read(held)
            for field, held in zip(names, packed, strict=False)
        }
        for field, enum in self._enums.get(cls, {}).items():
            if field in given:
                given[field] = enum(given[field])
        return cls(**given, **self._left_out[cls])


def _getter(names: list[str]) -> Callable[[Any], Sequence[Any]]:
    """A function that returns these fields of an object, in order."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: [getattr(value, name) for name in names]


def _tag(cls: type, version: int) -> str:
    """The name of a type in stored bytes, and its version if that is not the first."""
    name = _NAMES.get(cls, cls.__name__)
    return name if version == 1 else f"{name}.{version}"
