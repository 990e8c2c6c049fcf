"""Lines of a logger with Archon's formatter, in memory."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from archon.telemetry.logs import LogFormat
from archon.telemetry.logs.fields import ProcessIdentity
from archon.telemetry.logs.process import formatter


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class LoggedLines:
    """What a logger has written."""

    def __init__(self, stream: io.StringIO, log: logging.Logger) -> None:
        self._stream = stream
        self.log = log

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the only line."""
        (line,) = self.text.splitlines()
        return json.loads(line)  # type: ignore[no-any-return]


@contextmanager
def logged(log_format: LogFormat = "json", stream: io.StringIO | None = None) -> Iterator[LoggedLines]:
    """Gives a logger of its own whose lines are kept."""
    target = io.StringIO() if stream is None else stream
    log = logging.Logger("test.logger", logging.INFO)
    handler = logging.StreamHandler(target)
    handler.setFormatter(formatter(log_format, target, ProcessIdentity("designer", "designer-1a2b")))
    log.addHandler(handler)
    yield LoggedLines(target, log)
