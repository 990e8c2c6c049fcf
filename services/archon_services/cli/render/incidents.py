"""The report of an unexpected exception to an agent's author: its class, its message and the log with its stack."""

from __future__ import annotations

import os
from typing import Final

from archon.api.common.v1 import failure_pb2
from archon_services.cli.contexts import find_home
from archon_services.local_mesh import Home
from archon_services.local_mesh.incidents import find_incident

MAX_CHARS: Final = 300


def incident_text(failure: failure_pb2.Failure, home: Home | None = None) -> str:
    """Returns a line for an incident of the mesh in `home` (by default ARCHON_HOME); empty if there is none."""
    number = failure.metadata.get("incident", "")
    incident = find_incident(home or find_home(), number) if number else None
    if incident is None:
        return ""
    exception = incident.exception[:MAX_CHARS] or "unknown exception"
    return f"{exception} (stack in {os.path.relpath(incident.log)})"
