"""Reports of telemetry that could not be exported: a line at a time, whichever signals and packages have failed.

OpenTelemetry's packages log each attempt. Their lines would fill a log while a collector is down, and stand between
the lines of a command; here they become one line with the reason.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from typing_extensions import override

_log = logging.getLogger(__name__)

INTERVAL: Final = 30.0
"""Seconds between two reports of a process."""

MAX_REASON: Final = 200
"""Characters of a reason."""

_PACKAGES: Final = "opentelemetry"
_WITHOUT_REASON: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
"""A logger that may leave the reason out: `archon.telemetry.otlp` reports it."""

_lock = threading.Lock()
_reported_at = float("-inf")


def report(message: str, *arguments: object) -> bool:
    """Logs a warning and returns True, unless another report was made within INTERVAL seconds."""
    global _reported_at
    with _lock:
        now = time.monotonic()
        if now - _reported_at < INTERVAL:
            return False
        _reported_at = now
    _log.warning(message, *arguments)
    return True


def report_reason(reason: BaseException | str) -> None:
    """Reports why telemetry is not exported: the text, or the message of the first error of a chain."""
    text = reason if isinstance(reason, str) else _first_cause(reason)
    report("telemetry is not exported: %s", " ".join(text.split())[:MAX_REASON])


def take_over() -> None:
    """Turns the records of OpenTelemetry's packages into reports, from now on. Idempotent."""
    packages = logging.getLogger(_PACKAGES)
    if not any(isinstance(handler, _Reports) for handler in packages.handlers):
        packages.addHandler(_Reports(logging.WARNING))
        packages.propagate = False


class _Reports(logging.Handler):
    @override
    def emit(self, record: logging.LogRecord) -> None:
        if record.name != _WITHOUT_REASON:
            report_reason(_reason(record))


def _reason(record: logging.LogRecord) -> BaseException | str:
    """Returns the exception that a record of a package tells of, or else its message."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    raised = record.exc_info[1] if record.exc_info else None
    return next((argument for argument in arguments if isinstance(argument, Exception)), raised) or record.getMessage()


def _first_cause(error: BaseException) -> str:
    """Returns the text of the error with which a chain of errors began."""
    for _ in range(10):
        inner = error.args[0] if error.args else None
        causes = (getattr(error, "reason", None), inner, error.__cause__, error.__context__)
        cause = next((cause for cause in causes if isinstance(cause, BaseException)), None)
        if cause is None:
            break
        error = cause
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
