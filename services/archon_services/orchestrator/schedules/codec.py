"""Schedules and fires as the journal stores them: JSON. An earlier release leaves out the fields of a later one."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import asdict, replace
from dataclasses import fields as dataclass_fields
from typing import Any, Final

from archon.errors import DataLoss
from archon_services.orchestrator.journal import FireRow, TriggerRow
from archon_services.orchestrator.schedules.schedule import (
    CatchUp,
    Fire,
    FireState,
    Overlap,
    Owner,
    Policies,
    Schedule,
)
from archon_services.orchestrator.schedules.times import Cron, Every, Once, Times, Timing

KIND: Final = "schedule"
"""The kind of the triggers of the journal that are schedules."""

_TIMINGS: Final[dict[str, type[Timing]]] = {"cron": Cron, "every": Every, "once": Once}


def schedule_to_row(schedule: Schedule, revision: int, due: float | None) -> TriggerRow:
    """Returns the row of a schedule; `due` is None if nothing is due."""
    fields = asdict(schedule)
    fields["times"]["timing"] = [
        next(name for name, kind in _TIMINGS.items() if isinstance(schedule.times.timing, kind)),
        asdict(schedule.times.timing),
    ]
    at = math.inf if due is None else due
    return TriggerRow(schedule.tenant, KIND, schedule.name, revision, at, _dump(fields))


def schedule_from_row(row: TriggerRow) -> Schedule:
    """Reads the row of a schedule. Raises DataLoss if it cannot be read."""
    try:
        fields = _known(Schedule, json.loads(row.data))
        times = _known(Times, fields["times"])
        name, timing = times["timing"]
        times["timing"] = _TIMINGS[name](**_known(_TIMINGS[name], timing))
        policies = _known(Policies, fields["policies"])
        policies |= {"overlap": Overlap(policies["overlap"]), "catch_up": CatchUp(policies["catch_up"])}
        return Schedule(
            **{
                **fields,
                "times": Times(**times),
                "policies": Policies(**policies),
                "owner": Owner(**_known(Owner, fields["owner"])),
                "run": _bytes(fields["run"]),
                "open_fires": tuple(_fire(each) for each in fields["open_fires"]),
            }
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataLoss(f"the schedule {row.name} cannot be read: {error}") from None


def fire_to_row(fire: Fire) -> FireRow:
    """Returns the row of a fire, without its request."""
    fields = asdict(replace(fire, request=b""))
    return FireRow(fire.fire_id, fire.number, fire.run_id, fire.state is FireState.RUNNING, _dump(fields))


def fire_from_row(row: FireRow) -> Fire:
    """Reads the row of a fire. Raises DataLoss if it cannot be read."""
    try:
        return _fire(json.loads(row.data))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataLoss(f"the fire {row.fire_id} cannot be read: {error}") from None


def _fire(fields: dict[str, Any]) -> Fire:
    known = _known(Fire, fields)
    known |= {"state": FireState(known["state"]), "overlap": Overlap(known["overlap"])}
    return Fire(**{**known, "request": _bytes(known["request"]), "failure": _bytes(known["failure"])})


def _known(kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
    names = {each.name for each in dataclass_fields(kind)}
    return {name: value for name, value in fields.items() if name in names}


def _dump(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, default=lambda value: base64.b64encode(value).decode(), separators=(",", ":")).encode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
