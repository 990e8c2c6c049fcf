"""Finds the exception of an incident in the logs of the mesh on this machine.

An unexpected exception crosses the wire as an incident number only; its stack is in the log of its process.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archon_services.local_mesh.home import Home

MAX_BYTES: Final = 8 * 1024 * 1024
"""The newest bytes of each log that are searched."""

_LAST_LINE: Final = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$")


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
        text = _newest(log)
        position = text.find(marker)
        if position >= 0:
            return Incident(_exception(text[position:].splitlines()[1:]), log)
    return None


def _newest(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _exception(lines: list[str]) -> str:
    """The line that ends a stack: the first that is not indented after the line `Traceback`."""
    in_stack = False
    for line in lines:
        if line.startswith("Traceback "):
            in_stack = True
        elif in_stack and _LAST_LINE.match(line):
            return line
    return ""
