"""One writer for a SQLite file: a thread that takes all waiting work into one transaction.

Alone, work commits at once. Under `normal`, where a commit costs less than waking a thread, lone work commits where
it is asked for. An fsync that fails ends the process: what is on the disk isn't known any more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from archon.errors import ArchonError, ResourceExhausted, Unavailable

_log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

MAX_WAITING: Final = 10_000
"""So much work may wait; above it ResourceExhausted."""

MAX_BATCH: Final = 512


class Busy(Exception):
    """Other work is under way or queued: `now` can't run at once."""


class Writer:
    """Owns the only connection that writes. `name` is what its errors call the store."""

    def __init__(self, connection: sqlite3.Connection, *, inline: bool, name: str = "journal") -> None:
        self._db = connection
        self._name = name
        self._inline = inline
        self._lock = threading.Lock()
        self._work: deque[tuple[Work, bool, asyncio.Future[Any]]] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"{name}-writer", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[sqlite3.Connection], T], *, full: bool = False) -> T:
        """Runs `work` inside a transaction and returns when it is committed. `full` commits with synchronous=FULL
        whatever the setting. An error that work raises is raised here, and hurts nobody else's."""
        if self._inline and not full:
            try:
                return self.now(work)
            except Busy:
                pass
        return await self.later(work, full=full)

    def now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in a transaction of its own on the calling thread. Raises Busy if other work is under way or
        queued, and what the work raises."""
        if self._work or not self._lock.acquire(blocking=False):
            raise Busy
        try:
            return cast(T, self._alone(work))
        finally:
            self._lock.release()

    def later(self, work: Callable[[sqlite3.Connection], T], *, full: bool = False) -> asyncio.Future[T]:
        """Queues `work` for the writer's thread; the future ends when it is committed. Raises ResourceExhausted if too
        much work is queued."""
        if len(self._work) >= MAX_WAITING or self._closing:
            raise ResourceExhausted("too much waits to be written", retry_delay=1.0)
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._wake:
            self._work.append((work, full, future))
            self._wake.notify()
        return cast("asyncio.Future[T]", future)

    def close(self) -> None:
        """Does what waits, then ends the thread. Blocks."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._work and not self._closing:
                    self._wake.wait()
                if not self._work:
                    return
                batch = [self._work.popleft() for _ in range(min(len(self._work), MAX_BATCH))]
            with self._lock:
                results = self._together(batch)
            self._loop.call_soon_threadsafe(_settle, [entry[2] for entry in batch], results)

    def _together(self, batch: list[tuple[Work, bool, asyncio.Future[Any]]]) -> list[Any]:
        """All in one transaction, each behind a savepoint; where that fails, one by one."""
        if len(batch) == 1 and not batch[0][1]:
            return [_caught(self._alone, batch[0][0])]
        results: list[Any] = []
        try:
            if any(full for _, full, _ in batch):
                self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")
            for work, _, _ in batch:
                self._db.execute("SAVEPOINT one")
                result = _caught(work, self._db)
                if isinstance(result, sqlite3.Error):
                    raise result
                if isinstance(result, BaseException):
                    self._db.execute("ROLLBACK TO one")
                self._db.execute("RELEASE one")
                results.append(result)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._rollback()
            fatal(error, self._name)
            if len(batch) == 1:
                return [explained(error, self._name)]
            return [_caught(self._alone, work) for work, _, _ in batch]
        finally:
            if self._inline:
                self._db.execute("PRAGMA synchronous = NORMAL")
        return results

    def _alone(self, work: Work) -> Any:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            result = work(self._db)
            self._db.execute("COMMIT")
            return result
        except sqlite3.Error as error:
            self._rollback()
            fatal(error, self._name)
            raise explained(error, self._name) from error
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


def _caught(work: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return work(argument)
    except Exception as error:  # noqa: BLE001 - it belongs to whoever asked for the work
        return error


def _settle(futures: list[asyncio.Future[Any]], results: list[Any]) -> None:
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


def fatal(error: sqlite3.Error, name: str = "journal") -> None:
    """Ends the process where a write or an fsync failed: the file's state isn't known any more."""
    if "disk i/o error" in str(error).lower():
        _log.critical("the %s's disk failed, this process ends: %s", name, error)
        os._exit(74)  # EX_IOERR


def explained(error: sqlite3.Error, name: str = "journal") -> ArchonError:
    """A store's error as one of the tree."""
    if "full" in str(error).lower():
        return ResourceExhausted(f"the {name}'s disk is full", retry_delay=5.0)
    return Unavailable(f"the {name} can't be written: {error}", retry_delay=1.0)
