"""A line of a log file of the mesh: Archon's JSON, etcd's, or any text, such as a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from archon.json_text import json_object
from archon.telemetry.logs.render import plain, text_line

LEVELS: Final = ("debug", "info", "warning", "error", "critical")

_FROM_ETCD: Final = {"ts": "time", "msg": "message", "caller": "logger"}
_ETCD_LEVELS: Final = {"warn": "warning", "dpanic": "critical", "panic": "critical", "fatal": "critical"}


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line and its fields, which are empty if it is not JSON of a known form. `time` is in seconds since the epoch;
    0 if the line has none."""

    process: str
    text: str
    fields: Mapping[str, Any]
    time: float = 0.0

    @property
    def run_id(self) -> str:
        """The run that the line is about; empty if it names none."""
        return str(self.fields.get("run_id", ""))

    def is_at_least(self, level: str) -> bool:
        """Whether the line has this level or a higher one. A line without a level does: it may be a traceback."""
        own = self.fields.get("level", "")
        return own not in LEVELS or LEVELS.index(own) >= LEVELS.index(level)

    def rendered(self, *, colours: bool = False, process: str = "", shows_run: bool = True, columns: int = 0) -> str:
        """Returns the line as people read it; `process` is the name of the process, padded, or empty. With `columns`
        it wraps to that width."""
        if self.fields:
            return text_line(self.fields, colours=colours, process=process, shows_run=shows_run, columns=columns)
        return f"{process} {plain(self.text)}" if process else plain(self.text)


def parse_line(process: str, text: str) -> LogLine:
    """Returns a line of the log of a process."""
    fields = _fields_of(text)
    return (
        LogLine(process, text, fields, _seconds(str(fields.get("time", "")))) if fields else LogLine(process, text, {})
    )


def _fields_of(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    fields = json_object(text) or {}
    if "ts" in fields and "msg" in fields:
        fields = {_FROM_ETCD.get(name, name): value for name, value in fields.items()}
        fields["level"] = _ETCD_LEVELS.get(str(fields.get("level", "")), fields.get("level", ""))
    return fields if {"time", "level", "message"} <= fields.keys() else {}


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return 0.0
