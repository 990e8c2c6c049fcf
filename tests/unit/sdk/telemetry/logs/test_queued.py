"""Lines for a pipe wait in a bounded queue, and never stop the process that logs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from archon.telemetry.logs import queued
from archon.telemetry.logs.queued import QueuedHandler
from tests.fixtures.waiting import wait_until

LONG = "x" * 10_000


class Pipe:
    """A pipe whose reader has stopped until `read_all`."""

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        self.writer = os.fdopen(writer, "w")
        self.text = ""

    def read_all(self, last: str) -> str:
        """Reads until the text has `last`."""
        while last not in self.text:
            self.text += os.read(self._reader, 1 << 20).decode()
        return self.text

    def close(self) -> None:
        os.close(self._reader)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture
def log(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[logging.Logger, QueuedHandler]]:
    monkeypatch.setattr(queued, "FLUSH_TIMEOUT", 0.2)
    log, handler = logging.Logger("test"), QueuedHandler(pipe.writer)
    log.addHandler(handler)
    yield log, handler
    pipe.close = lambda: None  # type: ignore[method-assign]
    os.close(pipe._reader)  # a thread that waits for the reader ends with an error
    handler.close()
    handler._thread.join(10)
    assert not handler._thread.is_alive()


def test_a_reader_that_stops_loses_lines_and_stops_no_one(
    pipe: Pipe, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, handler = log
    monkeypatch.setattr(queued, "MAX_BYTES", 30 * len(LONG))
    logger.warning(LONG * 20)  # more than the pipe holds: the thread waits
    wait_until(lambda: not handler._lines)
    logged = threading.Thread(target=lambda: [logger.warning("%03d %s", number, LONG) for number in range(200)])
    logged.start()
    logged.join(30)
    assert not logged.is_alive()
    assert 0 < handler._size <= 30 * len(LONG)
    dropped = handler.dropped
    assert dropped == 200 - len(handler._lines) == 171
    text = pipe.read_all(f"dropped {dropped} log lines")
    assert "\n000 " in text, "the oldest lines are kept"
    logger.warning("again")
    assert "again" in pipe.read_all("again")


def test_the_lines_that_wait_are_bounded_in_count(pipe: Pipe, log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logger, handler = log
    monkeypatch.setattr(queued, "MAX_LINES", 5)
    logger.warning(LONG * 20)  # more than the pipe holds: the thread waits
    wait_until(lambda: not handler._lines)
    for _ in range(20):
        logger.warning("m")
    assert len(handler._lines) == 5
    assert handler.dropped == 15


def test_the_end_of_a_process_waits_for_its_lines(pipe: Pipe, log: Any) -> None:
    logger, handler = log
    for number in range(100):
        logger.warning("line %d", number)
    handler.flush()
    assert "line 99\n" in pipe.read_all("line 99\n")


def test_the_end_of_a_process_does_not_wait_for_a_stopped_reader(
    pipe: Pipe, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, handler = log
    logger.warning(LONG * 20)
    handler.flush()
    assert handler._writing, "the thread still waits, the caller does not"
    monkeypatch.setattr(queued, "FLUSH_TIMEOUT", 1000.0)
    handler.flush()  # as the end of a process does several times


def test_a_reader_that_is_gone_is_no_error() -> None:
    pipe = Pipe()
    handler = QueuedHandler(pipe.writer)
    pipe.close()
    log = logging.Logger("test")
    log.addHandler(handler)
    log.warning("no one reads this")
    handler.close()
    handler._thread.join(10)
    assert not handler._thread.is_alive()


def test_a_message_that_cannot_be_formatted_loses_only_itself(
    pipe: Pipe, log: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    logger, _ = log
    logger.warning("%d", "no number")
    logger.warning("next")
    assert pipe.read_all("next\n") == "next\n"
    assert "Logging error" in capsys.readouterr().err
