"""Sets up the logs of a process."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Callable
from typing import Final, Literal, TextIO, get_args

from typing_extensions import override

from archon.process_input import open_standard_streams
from archon.telemetry.logs.fields import LineFields, ProcessIdentity
from archon.telemetry.logs.otlp import OtlpHandler, open_exporter
from archon.telemetry.logs.queued import QueuedHandler
from archon.telemetry.logs.render import json_line, text_line

LogFormat = Literal["auto", "json", "text"]
FORMATS: Final[tuple[LogFormat, ...]] = get_args(LogFormat)

_QUIET: Final = ("grpc", "httpx", "httpx2", "openai", "anthropic", "mcp", "asyncio", "alembic")
"""Libraries that log each of their calls at INFO."""

_process = ProcessIdentity()


def setup(
    service: str,
    level: str = "info",
    *,
    instance_id: str = "",
    log_format: LogFormat = "auto",
    stream: TextIO | None = None,
) -> None:
    """Logs records from `level` on to `stream`, by default standard error, one line each.

    `service` is the field of this name, unless OTEL_SERVICE_NAME is set. `log_format` auto is text on a terminal and
    JSON elsewhere. A process that has configured logging before keeps its configuration.
    """
    _process.service = os.environ.get("OTEL_SERVICE_NAME") or service
    _process.instance_id = instance_id
    root = logging.getLogger()
    if root.handlers:
        return
    open_standard_streams()
    target = sys.stderr if stream is None else stream
    handler = _handler(target)
    handler.setFormatter(formatter(log_format, target, _process))
    root.addHandler(handler)
    root.setLevel(level.upper())
    if (exporter := open_exporter(_process)) is not None:
        root.addHandler(exporter)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)


def identify(instance_id: str) -> None:
    """Sets the instance id of the process, if it is known only after `setup`."""
    _process.instance_id = instance_id


def flush() -> None:
    """Writes the queue, for FLUSH_TIMEOUT seconds at most. Blocks. For a process that ends by `os._exit`; any other one
    does it at its end."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def begin_flush(timeout: float) -> Callable[[], None]:
    """Begins to export the queue. Returns a function that waits for that, until `timeout` seconds from now have passed;
    it blocks."""
    exporters = [handler for handler in logging.getLogger().handlers if isinstance(handler, OtlpHandler)]
    waits = [exporter.begin_flush(timeout) for exporter in exporters]

    def wait() -> None:
        for wait_for_exporter in waits:
            wait_for_exporter()

    return wait


def close() -> None:
    """Exports and writes the queue, for a limited time. Blocks: call it when the event loop has ended. Lines that are
    logged later are written, but not exported."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, OtlpHandler):
            handler.close()
        else:
            handler.flush()


def formatter(log_format: LogFormat, stream: TextIO, process: ProcessIdentity) -> logging.Formatter:
    """Returns the formatter of `log_format`: `auto` is text at a terminal, else JSON. Colours need a terminal and no
    NO_COLOR."""
    terminal = stream.isatty()
    is_text = log_format == "text" or (log_format == "auto" and terminal)
    # https://no-color.org
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return _LineFormatter(process, is_text=is_text, colours=colours)


class _LineFormatter(logging.Formatter):
    """Renders a record as a line of text or of JSON."""

    def __init__(self, process: ProcessIdentity, *, is_text: bool, colours: bool) -> None:
        super().__init__()
        self._fields = LineFields(process)
        self._is_text = is_text
        self._colours = colours

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields(record)
        return text_line(fields, colours=self._colours) if self._is_text else json_line(fields)


def _handler(stream: TextIO) -> logging.Handler:
    """Returns a handler that writes at once if the stream is a file: queued lines die with their process."""
    try:
        is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        is_file = True  # in memory
    return logging.StreamHandler(stream) if is_file else QueuedHandler(stream)
