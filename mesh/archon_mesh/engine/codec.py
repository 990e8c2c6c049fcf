"""Inputs as bytes, to stand beside the events they caused: so that a checker can decide them again.

Payloads are left out: the event that an input caused has them, and no decision reads one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final

from archon_mesh.core.people import (
    Condition,
    Decision,
    InterceptionRule,
    QuestionKind,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import ReplanPolicy
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.plan_text import plan_from_json, plan_to_json
from archon_mesh.engine.types import (
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

_RESULT = (
    "task_id attempt state failure publish records spent input_id checkpointed has_turn read_version turn_too_large"
    " version_conflict items"
)
_FORMS: Final[dict[type, tuple[str, ...]]] = {
    inp.Submit: ("submission owner epoch reused plan answered origin",),
    inp.ReusedAnswer: ("role publish items step_id",),
    inp.ReusedPlan: ("plan changes",),
    inp.ReusedInput: ("role step_id input_id identity request_id digest kind decision checkpointed",),
    inp.Claim: ("owner epoch origin",),
    inp.SlotFound: ("task_id instance_id conversation_version",),
    inp.InputMissing: ("task_id attempt failure",),
    inp.ResultIn: (_RESULT, f"{_RESULT} confidence"),
    inp.PlanIn: (f"{_RESULT} plan faults changes reason", f"{_RESULT} plan faults changes reason confidence"),
    inp.QuestionIn: (f"{_RESULT} kind terms", f"{_RESULT} kind terms confidence"),
    inp.DelegateIn: (
        "task_id attempt delegation_id sequence role available digest capability memo_key timeout budget checkpointed"
        " records others",
    ),
    inp.CancelDelegationIn: ("task_id attempt delegation_id sequence",),
    inp.BudgetRequestIn: ("task_id attempt request_id sequence wanted",),
    inp.UsageIn: ("task_id attempt spent",),
    inp.RejectIn: ("task_id attempt failure delay",),
    inp.LostIn: ("task_id attempt failure on_purpose",),
    inp.WorkingIn: ("task_id attempt",),
    inp.RecordsIn: ("task_id attempt count sequence",),
    inp.PublishedIn: ("task_id seq version",),
    inp.CheckpointIn: ("task_id attempt sequence records",),
    inp.PublishIn: ("task_id attempt sequence item records",),
    inp.AskIn: ("task_id attempt sequence input_id records kind terms",),
    inp.Cancel: ("identity reason",),
    inp.Respond: ("input_id identity request_id digest decision plan",),
    inp.Pause: ("identity",),
    inp.Resume: ("identity",),
    inp.EditPlan: ("identity edit_id expected_seq plan",),
    inp.Tick: ("",),
    inp.JournalFull: ("size limit",),
    Submission: (
        "run_id tenant request_id session_id strategy roles edges timeout requirements all_ancestors targets budget"
        " session_context pause_timeout parent_run_id rules check_alignment",
        "run_id tenant request_id session_id strategy roles edges timeout requirements all_ancestors targets budget"
        " session_context pause_timeout parent_run_id rules check_alignment plan_rules",
    ),
    PlanRules: ("policy max_attempts are_checked permanent_failures",),
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
    ClockOrigin: ("boot_id time",),
}
"""The fields of each type, as they are stored one after the other, in each version of the type. A version that was used
never changes. A field that is added makes a new version; a field that is missing has its default."""

_NAMES: Final[dict[type, str]] = {SessionContextRef: "Outside", Requirement: "Want"}
"""Names in stored bytes that differ from the class: a stored name never changes."""

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
_LEFT_OUT = {cls: {f.name: None for f in fields(cls) if f.name in _OPAQUE} for cls in _FORMS}


def _tag(cls: type, version: int) -> str:
    """The name of a type in stored bytes, and its version if that is not the first."""
    name = _NAMES.get(cls, cls.__name__)
    return name if version == 1 else f"{name}.{version}"


_TAG_OF = {cls: _tag(cls, len(forms)) for cls, forms in _FORMS.items()}
_STORED = {
    _tag(cls, version): (cls, form.split()) for cls, forms in _FORMS.items() for version, form in enumerate(forms, 1)
}


def _getter(names: list[str]) -> Callable[[Any], Sequence[Any]]:
    """A function that returns these fields of an object, in order."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: [getattr(value, name) for name in names]


_VALUES = {cls: _getter(forms[-1].split()) for cls, forms in _FORMS.items()}


def _pack(value: Any) -> dict[str, Any]:
    """An object is {its class and version: [its fields, as _FORMS has them]}; a tuple is a list; an enum its number, as
    JSON writes it anyway; a plan a text of its own, since it has objects in its arguments."""
    cls = type(value)
    if cls is Plan:
        return {_PLAN: plan_to_json(value)}
    return {_TAG_OF[cls]: _VALUES[cls](value)}


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_pack).encode


def encode_inputs(given: Sequence[inp.Input], now: float) -> bytes:
    """The inputs of one append and the time they were decided at."""
    return _encode([VERSION, now, given]).encode()


def decode_inputs(data: bytes) -> tuple[list[inp.Input], float]:
    """The inputs of `encode_inputs`, without payloads."""
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
    if (stored := _STORED.get(name)) is None:
        raise ValueError(f"inputs of the type {name} cannot be read")
    cls, names = stored
    if len(packed) > len(names):
        raise ValueError(f"an input has more than is known of {name}")
    # Bytes that were stored before types had versions may end earlier: later fields have their defaults.
    given = {field: _unpack(held) for field, held in zip(names, packed, strict=False)}
    for field, enum in _ENUMS.get(cls, {}).items():
        if field in given:
            given[field] = enum(given[field])
    return cls(**given, **_LEFT_OUT[cls])
