"""Inputs as bytes, to stand beside the events they caused: so that a checker can decide them again.

Payloads are left out: the event that an input caused has them, and no decision reads one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import IntEnum
from operator import attrgetter
from typing import Any

from archon_mesh.core.people import (
    Condition,
    Decision,
    InterceptionRule,
    QuestionKind,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.core.plan import ReplanPolicy
from archon_mesh.core.plan import Task as Plan
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.plan_text import plan_from_json, plan_to_json
from archon_mesh.core.run.types import (
    Amount,
    Budget,
    ClockOrigin,
    Edge,
    Failure,
    Item,
    PlanRules,
    PlanTarget,
    Requirement,
    SessionContextRef,
    Submission,
    Target,
    TaskState,
)

VERSION = 2

_TAGS: dict[type, str] = {SessionContextRef: "Outside", Requirement: "Want"}
"""Names in stored bytes that differ from the class: a stored name never changes."""

_TYPES: dict[str, type] = {
    _TAGS.get(cls, cls.__name__): cls
    for cls in (
        inp.Submit,
        inp.ReusedAnswer,
        inp.ReusedPlan,
        inp.ReusedInput,
        inp.Claim,
        inp.SlotFound,
        inp.InputMissing,
        inp.ResultIn,
        inp.PlanIn,
        inp.QuestionIn,
        inp.DelegateIn,
        inp.CancelDelegationIn,
        inp.BudgetRequestIn,
        inp.UsageIn,
        inp.RejectIn,
        inp.LostIn,
        inp.WorkingIn,
        inp.RecordsIn,
        inp.PublishedIn,
        inp.CheckpointIn,
        inp.PublishIn,
        inp.AskIn,
        inp.Cancel,
        inp.Respond,
        inp.Pause,
        inp.Resume,
        inp.EditPlan,
        inp.Tick,
        inp.JournalFull,
        Submission,
        Failure,
        Edge,
        Item,
        SessionContextRef,
        Requirement,
        Target,
        PlanTarget,
        PlanRules,
        ReplanPolicy,
        Amount,
        Budget,
        InterceptionRule,
        Condition,
        QuestionTerms,
        ClockOrigin,
    )
}
_ENUMS: dict[type, dict[str, type[IntEnum]]] = {
    inp.ResultIn: {"state": TaskState},
    inp.PlanIn: {"state": TaskState},
    inp.QuestionIn: {"state": TaskState, "kind": QuestionKind},
    inp.AskIn: {"kind": QuestionKind},
    inp.Respond: {"decision": Decision},
    inp.ReusedInput: {"kind": QuestionKind, "decision": Decision},
    QuestionTerms: {"on_timeout": TimeoutPolicy, "trigger": Trigger},
    InterceptionRule: {"on_timeout": TimeoutPolicy, "trigger": Trigger},
}
"""Fields that are stored as the numbers of an enum."""

_PLAN = "Plan"
_OPAQUE = frozenset({"payload", "goal", "result"})
_NAMES = {cls: [field.name for field in fields(cls) if field.name not in _OPAQUE] for cls in _TYPES.values()}
_LEFT_OUT = {cls: {f.name: None for f in fields(cls) if f.name in _OPAQUE} for cls in _TYPES.values()}
_TAG_OF = {cls: _TAGS.get(cls, cls.__name__) for cls in _NAMES}


def _getter(names: list[str]) -> Callable[[Any], Sequence[Any]]:
    """A function that returns these fields of an object, in order."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: [getattr(value, name) for name in names]


_VALUES = {cls: _getter(names) for cls, names in _NAMES.items()}


def _pack(value: Any) -> dict[str, Any]:
    """An object is {its class: [its fields, in order]}; a tuple is a list; an enum its number, as JSON writes it
    anyway; a plan a text of its own, since it has objects in its arguments."""
    cls = type(value)
    if cls is Plan:
        return {_PLAN: plan_to_json(value)}
    return {_TAG_OF[cls]: _VALUES[cls](value)}


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_pack).encode


def encode_inputs(given: Sequence[inp.Input], now: float) -> bytes:
    """The inputs of one append and the time they were decided at."""
    return _encode([VERSION, now, given]).encode()


def decode_inputs(data: bytes) -> tuple[list[inp.Input], float]:
    """What `encode_inputs` was given, without payloads."""
    version, now, packed = json.loads(data)
    if version != VERSION:
        raise ValueError(f"inputs of version {version} cannot be read")
    return [_unpack(value) for value in packed], now


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_unpack(item) for item in value)
    if not isinstance(value, dict):
        return value
    ((name, packed),) = value.items()
    if name == _PLAN:
        return plan_from_json(packed)
    cls = _TYPES[name]
    if len(packed) > len(_NAMES[cls]):
        raise ValueError(f"an input has more than is known of {name}")
    # What an earlier revision wrote ends earlier: what came since has its default.
    given = {field: _unpack(held) for field, held in zip(_NAMES[cls], packed, strict=False)}
    for field, enum in _ENUMS.get(cls, {}).items():
        if field in given:
            given[field] = enum(given[field])
    return cls(**given, **_LEFT_OUT[cls])
