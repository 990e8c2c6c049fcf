"""The fields of a log line: of the record, of the process, of the call being served, and of the current span."""

from __future__ import annotations

import logging
import math
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from archon import context, plain_text
from archon.telemetry.trace_parent import TraceParent

if TYPE_CHECKING:
    from archon.api.common.v1 import common_pb2

MAX_TEXT: Final = 8 * 1024
"""Characters of a message and of any other value, except for a stack."""

MAX_STACK: Final = 16 * 1024
"""Characters of a stack; of a longer one the end is kept, which has the cause."""

MAX_EXTRA: Final = 32
"""Fields of a record's own, beside those that each line may have."""

_MAX_KEY: Final = 64
_INT64: Final = 2**63

_OF_LINE: Final = frozenset({"time", "level", "message", "logger", "service", "instance_id"})
"""Fields that a record cannot replace."""

_OF_LOGGING: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"asctime"}
"""Attributes that logging itself gives to a record; it adds the keys of `extra`."""

_OF_CALL: Final = ("trace_id", "span_id", "run_id", "task_id", "attempt", "role", "identity", "actor")
"""Fields of the call being served, which a record may replace."""


@dataclass(slots=True)
class ProcessIdentity:
    """The fields that all lines of a process share: its service and the id of its instance."""

    service: str = ""
    instance_id: str = ""


class LineFields:
    """Makes the fields of a line from a record.

    Runs on the thread, and in the context, of the call that logs.
    """

    def __init__(self, process: ProcessIdentity) -> None:
        self._process = process

    def __call__(self, record: logging.LogRecord) -> dict[str, Any]:
        message = as_text(record.getMessage())
        if record.stack_info:
            message = f"{message}\n{record.stack_info}"
        extra = {name: value for name, value in record.__dict__.items() if name not in _OF_LOGGING}
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "message": cut(message),
            "logger": record.name,
            "service": self._process.service,
        }
        if self._process.instance_id:
            fields["instance_id"] = self._process.instance_id
        error = extra.pop("error", None)
        fields |= call_fields(str(extra.get("run_id", "")))
        fields |= _extra_fields(extra)
        if record.exc_info:
            fields["error"] = _raised_fields(record.exc_info)
        elif error:
            fields["error"] = _raised_fields(error) if isinstance(error, BaseException) else {"message": _value(error)}
        return fields


def call_fields(run_id: str = "") -> dict[str, Any]:
    """Returns the ids of the call being served and of the current span, as far as they are known; nothing if the call
    belongs to another run than `run_id`."""
    call = context.current()
    if run_id and call.run_id and call.run_id != run_id:
        return {}
    traceparent, _ = context.trace()
    parent = TraceParent.parse(traceparent) if traceparent else None
    trace_id, span_id = (parent.trace_id, parent.span_id) if parent is not None else ("", "")
    identity = "" if call.identity == context.ANONYMOUS else call.identity
    values = (trace_id, span_id, call.run_id, call.task_id, call.attempt, call.role, identity, call.actor)
    return {name: value for name, value in zip(_OF_CALL, values, strict=True) if value}


def task_fields(ref: common_pb2.TaskRef) -> dict[str, Any]:
    """Returns the fields of a line about an attempt, to be passed as `extra`."""
    return {"run_id": ref.run_id, "task_id": ref.task_id, "attempt": ref.attempt}


def cut(text: str) -> str:
    """Returns the text, or the first MAX_TEXT characters of it."""
    return plain_text.cut(text, MAX_TEXT)


def as_text(value: object) -> str:
    """Returns a value as text, also if it cannot be converted."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever a value of a log call raises
        return f"<{type(value).__name__}>"


def _extra_fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of the record beside those on each line; empty values are left out."""
    own = {name: value for name, value in extra.items() if name not in _OF_LINE and value not in (None, "")}
    kept = [*(name for name in _OF_CALL if name in own), *(name for name in own if name not in _OF_CALL)][:MAX_EXTRA]
    return {name[:_MAX_KEY]: _value(own[name]) for name in kept}


def _value(value: object) -> Any:
    """Returns a value that JSON has: any other one as text."""
    if isinstance(value, bool) or (isinstance(value, int) and -_INT64 <= value < _INT64):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return cut(as_text(value))


def _raised_fields(raised: Any) -> dict[str, str]:
    """Returns class, message and stack of an exception, which is given as one, as `sys.exc_info()`, or as True."""
    error: BaseException | None
    trace: TracebackType | None
    if isinstance(raised, BaseException):
        error, trace = raised, raised.__traceback__
    else:
        _, error, trace = raised if isinstance(raised, tuple) else sys.exc_info()
    if error is None:
        return {}
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    stack = "".join(traceback.format_exception(kind, error, trace))
    return {"type": name, "message": cut(as_text(error)), "stack": stack[-MAX_STACK:].rstrip()}
