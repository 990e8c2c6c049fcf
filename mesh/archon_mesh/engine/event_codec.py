"""Events as JSON, for the journal of a run in a process. (An orchestrator stores the messages of the contract.)

The caller says how payloads are written and read: to a run in a process they are values of Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final

from archon_mesh.core.people import Decision, DefaultAnswer, QuestionKind, TimeoutPolicy
from archon_mesh.engine import events as ev
from archon_mesh.engine.forms import ENUMS, PLAN, VALUES, Forms
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.plan_text import plan_to_json
from archon_mesh.engine.types import ContextRef, Item, TaskState

_FORMS: Final[dict[type, tuple[str, ...]]] = {
    ev.Submitted: ("submission owner epoch origin",),
    ev.Claimed: ("owner epoch origin",),
    ev.TaskCreated: ("task_id role parent predecessors step_id align",),
    ev.Planned: ("task_id revision plan changes identity edit_id expansion reason",),
    ev.Dispatched: (
        "task_id attempt epoch role instance_id context reserved conversation_version",
        "task_id attempt epoch role instance_id context reserved conversation_version placement expected_seconds",
        "task_id attempt epoch role instance_id context reserved conversation_version placement expected_seconds"
        " ignores_breakpoints",
    ),
    ev.Delegated: (
        "task_id attempt delegation_id child role memo_key sequence capability timeout budget checkpointed payload"
        " failure",
    ),
    ev.DelegationCancelled: ("task_id attempt delegation_id sequence",),
    ev.BudgetReserved: ("task_id attempt request_id sequence reserved failure",),
    ev.ResultReceived: (
        "task_id attempt role state payload failure publish spent stores_turn confidence",
        "task_id attempt role state payload failure publish spent stores_turn confidence winner",
    ),
    ev.InputRequested: ("task_id attempt role input_id payload spent checkpointed sequence kind terms",),
    ev.ApprovalRequested: (
        "task_id attempt role input_id terms payload failure spent publish items plan changes message reason",
        "task_id attempt role input_id terms payload failure spent publish items plan changes message reason winner",
        "task_id attempt role input_id terms payload failure spent publish items plan changes message reason winner"
        " breakpoint",
    ),
    ev.BreakpointsSet: ("identity breakpoints",),
    ev.QuestionTimedOut: ("task_id input_id rule policy level",),
    ev.InputGiven: ("task_id input_id identity request_id digest payload decision",),
    ev.CheckpointTaken: ("task_id attempt sequence payload",),
    ev.ItemPublished: ("task_id attempt role sequence item",),
    ev.MessageSent: (
        "task_id attempt role sequence message_id receiver type correlation_id ttl size payload failure first_seq",
    ),
    ev.Subscribed: ("task_id attempt sequence topics",),
    ev.Paused: ("identity",),
    ev.Resumed: ("identity",),
    ev.Discarded: ("task_id attempt reason payload",),
    ev.Lost: ("task_id attempt instance_id failure",),
    ev.Rejected: ("task_id attempt instance_id failure not_before",),
    ev.Retried: ("task_id attempt role failure not_before spent payload",),
    ev.TaskStopping: ("task_id role attempt failure",),
    ev.TaskEnded: ("task_id role attempt state failure",),
    ev.CancelRequested: ("identity reason cause failure",),
    ev.Published: ("task_id role seq version",),
    ev.Recorded: ("task_id attempt count sequence",),
    ev.RunEnded: ("state failure answer_seqs",),
    **VALUES,
    ContextRef: ("role seq version scope",),
    Item: ("policy payload",),
}
"""The fields of each type, as they are stored one after the other, in each version of the type. A version that was used
never changes. A field that is added makes a new version; a field that is missing has its default."""

_ENUMS: Final[dict[type, dict[str, type[IntEnum]]]] = {
    ev.ResultReceived: {"state": TaskState},
    ev.InputRequested: {"kind": QuestionKind},
    ev.QuestionTimedOut: {"policy": TimeoutPolicy},
    ev.InputGiven: {"decision": Decision},
    ev.TaskEnded: {"state": TaskState},
    ev.RunEnded: {"state": TaskState},
    **ENUMS,
}
_LEFT_OUT: Final = frozenset({"goal"})
_PAYLOAD: Final = "payload"

_DEFAULT: Final = "default"
"""The key of a default answer in a stored payload; any other payload is under the key `value`."""


class EventCodec:
    """Writes events as JSON, and reads them. `write_value` makes a JSON value of a payload, `read_value` the payload of
    a JSON value."""

    def __init__(
        self,
        write_value: Callable[[Any], Any] = lambda value: value,
        read_value: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self._write_value = write_value
        self._read_value = read_value
        self._forms = Forms(
            "event", _FORMS, _ENUMS, left_out=_LEFT_OUT, values=(_PAYLOAD,), read_value=self._read_payload
        )
        self._payloads = {
            cls: known[-1].split().index(_PAYLOAD) for cls, known in _FORMS.items() if _PAYLOAD in known[-1].split()
        }
        self._encode = json.JSONEncoder(
            separators=(",", ":"), check_circular=False, ensure_ascii=False, default=self._pack
        ).encode

    def encode(self, events: Sequence[ev.Event]) -> str:
        """Returns the text of events. Raises TypeError if a plan holds a value that has no JSON form, and the errors of
        `write_value`."""
        return self._encode(events)

    def read(self, stored: Sequence[Any]) -> list[ev.Event]:
        """Returns the events of a text of `encode`, which was read as JSON. Raises ValueError, KeyError or TypeError if
        it is something else, or of a later version."""
        return [self._forms.read(event) for event in stored]

    def _pack(self, value: Any) -> dict[str, Any]:
        cls = type(value)
        if cls is Plan:
            return {PLAN: plan_to_json(value)}
        packed = list(self._forms.getters[cls](value))
        if (position := self._payloads.get(cls)) is not None:
            packed[position] = self._payload(packed[position])
        return {self._forms.tags[cls]: packed}

    def _payload(self, payload: Any) -> dict[str, Any]:
        if isinstance(payload, DefaultAnswer):
            return {_DEFAULT: [payload.input_id, payload.text, payload.decision]}
        return {"value": self._write_value(payload)}

    def _read_payload(self, stored: Any) -> Any:
        if _DEFAULT in stored:
            input_id, text, decision = stored[_DEFAULT]
            return DefaultAnswer(input_id, text, Decision(decision))
        return self._read_value(stored["value"])
