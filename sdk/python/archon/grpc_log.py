"""Limits the log records of gRPC's library about calls that are malformed, before any handler of a server sees them.

A call whose method or metadata is not UTF-8 makes gRPC log three stacks with the bytes, and print a fourth. Any caller
that reaches the port could fill the disk with them, and a password that another program sends by mistake would be
logged."""

from __future__ import annotations

import logging
import math
import time
from types import ModuleType
from typing import Any, Final

from grpc._cython import cygrpc

LOGGED: Final = 5
"""Malformed calls per minute that get a line; the others are counted."""

_MINUTE: Final = 60.0
_STRANGERS: Final = "UnicodeDecodeError"
_GONE: Final = "ExecuteBatchError"


class StrangersFilter(logging.Filter):
    """Replaces records about malformed calls by a few lines without stack or bytes, and drops those about clients that
    go away while a message is written to them, which is no fault of the server."""

    def __init__(self) -> None:
        super().__init__()
        self._until = -math.inf
        self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is logged."""
        name = type(record.exc_info[1]).__name__ if record.exc_info else ""
        if name == _GONE:
            return False
        if name != _STRANGERS:
            return True
        now = time.monotonic()
        missed = 0
        if now >= self._until:
            missed = max(self._count - LOGGED, 0)
            self._until, self._count = now + _MINUTE, 0
        self._count += 1
        record.exc_info = record.exc_text = None
        record.args, record.levelno, record.levelname = (), logging.WARNING, "WARNING"
        record.msg = "refused a call whose method or metadata is not UTF-8"
        if missed:
            record.msg += f"; {missed} more in the minute before"
        return self._count <= LOGGED


class _NothingPrinted(ModuleType):
    """The module `traceback` of gRPC's library without `print_exc`, which the library calls for each malformed call."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        self._module = module

    def print_exc(self) -> None:
        """Prints nothing: the record that was logged before is enough."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def quieten() -> None:
    """Applies to all servers of the process; a second call does nothing."""
    logger = logging.getLogger(cygrpc.__name__)
    if not any(isinstance(each, StrangersFilter) for each in logger.filters):
        logger.addFilter(StrangersFilter())
    if not isinstance(cygrpc.traceback, _NothingPrinted):
        cygrpc.traceback = _NothingPrinted(cygrpc.traceback)
