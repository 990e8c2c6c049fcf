"""Finds the exception of an incident in the logs of the mesh on this machine.

An unexpected exception crosses the wire as an incident number only; its stack is in the log of its process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archon_services.local_mesh.home import Home
from archon_services.local_mesh.log_lines import LogLine, parse_line

MAX_BYTES: Final = 8 * 1024 * 1024
"""The newest bytes of each log that are searched."""


@dataclass(frozen=True, slots=True)
class Incident:
    """The exception (class and message, as the interpreter prints them) and the log file with its stack."""

    exception: str
    log: Path


def find_incident(home: Home, number: str) -> Incident | None:
    """Returns the incident with this number, or None if no log has it."""
    if not number.isalnum():
        return None
    marker = f"incident {number}"
    for log in sorted(home.logs.glob("*.log")):
        for line in _newest(log).split("\n"):
            if marker in line:
                return Incident(_exception(parse_line(log.stem, line)), log)
    return None


def _newest(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _exception(line: LogLine) -> str:
    """Returns class and message of the exception of a line, as the interpreter prints them."""
    error = line.fields.get("error")
    if not isinstance(error, Mapping):
        return ""
    kind, message = str(error.get("type", "")), str(error.get("message", ""))
    return f"{kind}: {message}" if message else kind
