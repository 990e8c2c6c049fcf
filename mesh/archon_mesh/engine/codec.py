"""Inputs as bytes, to stand beside the events they caused: so that a checker can decide them again.

Payloads are left out: the event that an input caused has them, and no decision reads one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from archon_mesh.core.people import Decision, QuestionKind
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.forms import ENUMS, PLAN, VALUES, Forms
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.plan_text import plan_to_json
from archon_mesh.engine.types import TaskState

VERSION = 2

_RESULT = (
    "task_id attempt state failure publish records spent input_id checkpointed has_turn read_version turn_too_large"
    " version_conflict items"
)
_FORMS: Final[dict[type, tuple[str, ...]]] = {
    inp.Submit: (
        "submission owner epoch reused plan answered origin",
        "submission owner epoch reused plan answered origin delegated",
        "submission owner epoch reused plan answered origin delegated breakpoints identity",
    ),
    inp.ReusedAnswer: ("role publish items step_id", "role publish items step_id winner"),
    inp.ReusedPlan: ("plan changes",),
    inp.ReusedInput: ("role step_id input_id identity request_id digest kind decision checkpointed",),
    inp.ReusedDelegation: ("owner role memo_key parent capability timeout budget completed publish items",),
    inp.Claim: ("owner epoch origin",),
    inp.SlotFound: (
        "task_id instance_id conversation_version",
        "task_id instance_id conversation_version placement expected_seconds",
        "task_id instance_id conversation_version placement expected_seconds ignores_breakpoints",
    ),
    inp.InputMissing: ("task_id attempt failure",),
    inp.DecisionIn: ("task_id is_decided reason", "task_id is_decided reason winner"),
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
    inp.SendIn: (
        "task_id attempt sequence message_id receiver type correlation_id ttl size forbidden expects_reply records",
    ),
    inp.SubscribeIn: ("task_id attempt sequence topics",),
    inp.AskIn: ("task_id attempt sequence input_id records kind terms",),
    inp.Cancel: ("identity reason",),
    inp.Respond: (
        "input_id identity request_id digest decision plan",
        "input_id identity request_id digest decision plan is_answer",
    ),
    inp.Pause: ("identity",),
    inp.Resume: ("identity",),
    inp.EditPlan: ("identity edit_id expected_seq plan",),
    inp.SetBreakpoints: ("identity breakpoints",),
    inp.Tick: ("",),
    inp.JournalFull: ("size limit",),
    **VALUES,
}
"""The fields of each type, as they are stored one after the other, in each version of the type. A version that was used
never changes. A field that is added makes a new version; a field that is missing has its default."""

_ENUMS: dict[type, dict[str, type[IntEnum]]] = {
    inp.ResultIn: {"state": TaskState},
    inp.PlanIn: {"state": TaskState},
    inp.QuestionIn: {"state": TaskState, "kind": QuestionKind},
    inp.AskIn: {"kind": QuestionKind},
    inp.Respond: {"decision": Decision},
    inp.ReusedInput: {"kind": QuestionKind, "decision": Decision},
    **ENUMS,
}
"""Fields that are stored as the numbers of an enum."""

_OPAQUE = frozenset({"payload", "goal", "result"})
_STORED = Forms("input", _FORMS, _ENUMS, left_out=_OPAQUE)
_TAG_OF, _VALUES = _STORED.tags, _STORED.getters


def _pack(value: Any) -> dict[str, Any]:
    """An object is {its class and version: [its fields, as _FORMS has them]}; a tuple is a list; an enum its number, as
    JSON writes it anyway; a plan a text of its own, since it has objects in its arguments."""
    cls = type(value)
    if cls is Plan:
        return {PLAN: plan_to_json(value)}
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
    return [_STORED.read(value) for value in packed], now
