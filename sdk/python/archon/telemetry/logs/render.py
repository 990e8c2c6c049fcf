"""A log line as JSON, and as aligned text for people."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

_UNESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What `json.dumps` leaves as it is, although it ends lines, controls terminals, or has no encoding."""

_CONTROLS: Final = {
    code: None
    for code in (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0xD800, 0xE000))
    if chr(code) not in "\n\t"
}

_INDENT: Final = "\n    "
"""Before each further line of a text: no value of a record can look like a line of its own."""

_RUN_CHARS: Final = 12

_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_COLOURS: Final = {
    "debug": _DIM,
    "info": "\x1b[32m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "critical": "\x1b[31m",
}

_IN_HEAD: Final = frozenset({"time", "level", "message", "logger", "service", "instance_id", "error"})
_IDS: Final = frozenset({"trace_id", "span_id", "run_id", "task_id", "attempt", "role"})

CALL_FIELDS: Final = frozenset(
    {"agent", "model", "tool", "seconds", "input_tokens", "output_tokens", "cost_usd", "outcome", "reason"}
)
"""Fields of calls of models and tools. Their messages say the same, so that text does not repeat them."""


def json_line(fields: Mapping[str, Any]) -> str:
    """Returns the fields as one line of JSON, in their order."""
    line = json.dumps(fields, ensure_ascii=False, default=str)
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def text_line(fields: Mapping[str, Any], *, colours: bool = False, process: str = "", shows_run: bool = True) -> str:
    """Returns the fields as text: local time, level, message, then fields of the record's own, and the stack of an
    error on indented lines. `process` comes before the message as it is, padded by the caller."""

    def styled(text: str, style: str) -> str:
        return f"{style}{text}{_RESET}" if colours and text and style else text

    level = plain(fields.get("level", ""))
    parts = [styled(_local_time(plain(fields.get("time", ""))), _DIM), styled(level.ljust(7), _COLOURS.get(level, ""))]
    if process:
        parts.append(styled(process, _BOLD))
    error = fields.get("error")
    error = error if isinstance(error, Mapping) else {}
    parts.append(plain(fields.get("message", "")).replace("\n", _INDENT))
    if error and "stack" not in error:
        parts.append(styled(f"error={plain(error.get('message', ''))}", _DIM))
    hidden = _IN_HEAD | _IDS | (CALL_FIELDS if "outcome" in fields else frozenset())
    own = [f"{plain(name)}={plain(value)}" for name, value in fields.items() if name not in hidden]
    if shows_run and fields.get("run_id"):
        own.append(f"run={plain(fields['run_id'])[:_RUN_CHARS]}")
    parts += [styled(text.replace("\n", " "), _DIM) for text in own]
    line = " ".join(parts)
    stack = plain(error.get("stack", "")).rstrip()
    return f"{line}{_INDENT}{styled(stack.replace(chr(10), _INDENT), _DIM)}" if stack else line


def plain(value: object) -> str:
    """Returns a value as text without control characters other than newline and tab."""
    return str(value).translate(_CONTROLS)


def _local_time(time: str) -> str:
    """Returns the time of day in this time zone: 14:02:11.123."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S.%f")[:-3]
    except ValueError:
        return time
