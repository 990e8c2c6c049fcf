"""Writes lines to a pipe or a terminal on a thread.

A write to a file ends. A write to a pipe whose reader has stopped, or to a terminal that is held, may not, and would
stop the event loop that logs: leases would lapse because of a log line. So lines wait in a queue with a bound, and
above it are dropped and counted.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from typing import Final, TextIO

from typing_extensions import override

MAX_LINES: Final = 10_000
"""Lines that wait to be written."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the lines that wait to be written."""

FLUSH_TIMEOUT: Final = 2.0
"""Seconds that the end of a process waits for its last lines to be written."""


class QueuedHandler(logging.Handler):
    """Formats on the calling thread, and never waits for the stream. The thread ends with `close`."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream  # kept open
        # The thread does not write through the stream: Python waits for the stream's lock when the process ends.
        self._file = stream.fileno()
        self._encoding = stream.encoding or "utf-8"
        self.dropped = 0
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self._size = 0
        self._writing = self._closing = self._stalled = False
        self._thread = threading.Thread(target=self._write_all, name="write-logs", daemon=True)
        self._thread.start()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
        except Exception:  # noqa: BLE001 - as logging's own handlers do
            self.handleError(record)
            return
        if self._pid != os.getpid():  # a forked process has no thread
            self._begin()
        with self._changed:
            if self._closing or len(self._lines) >= MAX_LINES or self._size + len(line) > MAX_BYTES:
                self.dropped += 1
                return
            self._lines.append(line)
            self._size += len(line)
            self._changed.notify_all()

    @override
    def flush(self) -> None:
        """Waits until all lines are written, for FLUSH_TIMEOUT seconds at most. After it gave up once, it does not wait
        again until something was written."""
        end = time.monotonic() + FLUSH_TIMEOUT
        with self._changed:
            while (self._lines or self._writing) and self._thread.is_alive() and not self._stalled:
                self._stalled = not self._changed.wait(end - time.monotonic()) and time.monotonic() >= end

    @override
    def close(self) -> None:
        self.flush()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        super().close()

    def _write_all(self) -> None:
        changed = self._changed
        while True:
            with changed:
                self._writing = self._stalled = False
                changed.notify_all()
                while not self._lines and not self._closing:
                    changed.wait()
                if not self._lines:
                    return
                text = "".join(self._lines)
                self._lines.clear()
                self._size, self._writing = 0, True
                dropped, self.dropped = self.dropped, 0
            data = memoryview((text + self._report(dropped)).encode(self._encoding, "backslashreplace"))
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError:
                pass  # the reader is gone, or the stream is closed: there is no place to say so

    def _report(self, dropped: int) -> str:
        """Returns a line that says how many lines are missing; empty if none are."""
        if not dropped:
            return ""
        message, arguments = "dropped %d log lines: standard error was not read in time", (dropped,)
        record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, arguments, None)
        return self.format(record) + "\n"
