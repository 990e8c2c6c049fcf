"""Hooks and deliveries as the journal stores them: JSON. An earlier release leaves out the fields of a later one."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import asdict
from dataclasses import fields as dataclass_fields
from typing import Any, Final

from archon.errors import DataLoss
from archon_services.orchestrator.hooks.hook import Delivery, DeliveryState, Hook, Scheme
from archon_services.orchestrator.journal import FireRow, TriggerRow
from archon_services.orchestrator.schedules.schedule import Owner

KIND: Final = "hook"
"""The kind of the triggers of the journal that are hooks."""

_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def hook_to_row(hook: Hook, revision: int) -> TriggerRow:
    """Returns the row of a hook, which is never due."""
    return TriggerRow(hook.tenant, KIND, hook.name, revision, math.inf, _dump(asdict(hook)))


def hook_from_row(row: TriggerRow) -> Hook:
    """Reads the row of a hook. Raises DataLoss if it cannot be read."""
    try:
        fields = _known(Hook, json.loads(row.data))
        fields |= {
            "scheme": Scheme(fields["scheme"]),
            "owner": Owner(**_known(Owner, fields["owner"])),
            "run": _bytes(fields["run"]),
            "events": tuple(fields["events"]),
        }
        return Hook(**fields)
    except _UNREADABLE as error:
        raise DataLoss(f"the hook {row.name} cannot be read: {error}") from None


def delivery_to_row(delivery: Delivery) -> FireRow:
    """Returns the row of a delivery."""
    return FireRow(delivery.key, delivery.number, delivery.run_id, False, _dump(asdict(delivery)))


def delivery_from_row(row: FireRow) -> Delivery:
    """Reads the row of a delivery. Raises DataLoss if it cannot be read."""
    try:
        fields = _known(Delivery, json.loads(row.data))
        fields |= {"state": DeliveryState(fields["state"]), "failure": _bytes(fields["failure"])}
        return Delivery(**fields)
    except _UNREADABLE as error:
        raise DataLoss(f"the delivery {row.fire_id} cannot be read: {error}") from None


def _known(kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
    names = {each.name for each in dataclass_fields(kind)}
    return {name: value for name, value in fields.items() if name in names}


def _dump(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, default=lambda value: base64.b64encode(value).decode(), separators=(",", ":")).encode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
