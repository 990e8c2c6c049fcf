"""Prints the form of stored events in the release that it is run with, as JSON: a line for each field of each message that
an event contains, and the revision of that form."""

from __future__ import annotations

import importlib
import json
from typing import Any, Final

from archon.api.orchestrator.v1 import run_pb2

REVISIONS: Final = (
    "archon_services.orchestrator.convert.event_revision",
    "archon_services.orchestrator.ownership.lease",
)
"""The modules that have the revision, the newest place first."""

TRANSIENT: Final = 40
"""Arms of RunEvent from this number on are never stored."""


def fields(message: Any, seen: set[str]) -> list[str]:
    """Returns the lines of a message and of those that it contains."""
    if message.full_name in seen:
        return []
    seen.add(message.full_name)
    lines: list[str] = []
    for field in message.fields:
        if message.full_name == run_pb2.RunEvent.DESCRIPTOR.full_name and field.number >= TRANSIENT:
            continue
        kind = field.message_type or field.enum_type
        lines.append(f"{message.full_name}.{field.name} = {field.number}: {kind.full_name if kind else field.type}")
        if field.message_type:
            lines += fields(field.message_type, seen)
        elif field.enum_type and field.enum_type.full_name not in seen:
            seen.add(field.enum_type.full_name)
            lines += [f"{field.enum_type.full_name}.{value.name} = {value.number}" for value in field.enum_type.values]
    return lines


def revision() -> int:
    """Returns the revision of the release."""
    for name in REVISIONS:
        try:
            return int(importlib.import_module(name).REVISION)
        except ModuleNotFoundError:
            continue
    raise AssertionError("this release has no revision of events")


if __name__ == "__main__":
    print(json.dumps({"revision": revision(), "fields": sorted(fields(run_pb2.RunEvent.DESCRIPTOR, set()))}))
