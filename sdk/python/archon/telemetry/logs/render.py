"""A log line as JSON, and as aligned text for people."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

_UNESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that `json.dumps` leaves as they are, although they end lines, control terminals, or have no encoding."""

_CONTROLS: Final = {
    code: None
    for code in (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0xD800, 0xE000))
    if chr(code) not in "\n\t"
}

_INDENT: Final = "\n    "
"""Before each further line of a text: no value of a record can look like a line of its own."""

_RUN_CHARS: Final = 12
_MIN_COLUMNS: Final = 24

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


def text_line(
    fields: Mapping[str, Any], *, colours: bool = False, process: str = "", shows_run: bool = True, columns: int = 0
) -> str:
    """Returns the fields as text: local time, level, message, then fields of the record's own, and the stack of an
    error on indented lines. `process` comes before the message as it is, padded by the caller. With `columns` the text
    wraps at words to that width."""

    def styled(text: str, style: str) -> str:
        return f"{style}{text}{_RESET}" if colours and text and style else text

    time, level = _local_time(_one_line(fields.get("time", ""))), _one_line(fields.get("level", ""))
    head = [styled(time, _DIM), styled(level.ljust(7), _COLOURS.get(level, ""))]
    head += [styled(process, _BOLD)] if process else []
    error = fields.get("error")
    error = error if isinstance(error, Mapping) else {}
    message, own = plain(fields.get("message", "")), _own_fields(fields, error, shows_run=shows_run)
    if columns:
        width = len(time) + 1 + max(7, len(level)) + 1 + (len(process) + 1 if process else 0)
        body = _wrapped(" ".join([message, *own]), columns, width)
    else:
        body = " ".join([message.replace("\n", _INDENT), *(styled(text, _DIM) for text in own)])
    stack = plain(error.get("stack", "")).rstrip()
    below = _INDENT + styled(stack.replace("\n", _INDENT), _DIM) if stack else ""
    return " ".join([*head, body]) + below


def _own_fields(fields: Mapping[str, Any], error: Mapping[str, Any], *, shows_run: bool) -> list[str]:
    """Returns the fields of a line beside its message, as name=value."""
    hidden = _IN_HEAD | _IDS | (CALL_FIELDS if "outcome" in fields else frozenset())
    own = [f"{name}={value}" for name, value in fields.items() if name not in hidden]
    if error and "stack" not in error:
        own.insert(0, f"error={error.get('message', '')}")
    if shows_run and fields.get("run_id"):
        own.append(f"run={str(fields['run_id'])[:_RUN_CHARS]}")
    return [_one_line(text) for text in own]


def _wrapped(text: str, columns: int, indent: int) -> str:
    """Wraps a text that begins in column `indent`; further lines are indented as any further line is."""
    lines: list[str] = []
    for line in text.split("\n"):
        first = " " * indent if not lines else _INDENT[1:]
        lines += textwrap.wrap(
            line,
            max(columns, indent + _MIN_COLUMNS),
            initial_indent=first,
            subsequent_indent=_INDENT[1:],
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first]
    return "\n".join(lines)[indent:]


def _one_line(value: object) -> str:
    return plain(value).replace("\n", " ")


def plain(value: object) -> str:
    """Returns a value as text without control characters other than newline and tab."""
    return str(value).translate(_CONTROLS)


def _local_time(time: str) -> str:
    """Returns the time of day in this time zone: 14:02:11.123."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S.%f")[:-3]
    except ValueError:
        return time
