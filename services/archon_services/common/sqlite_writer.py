"""The single writer of a SQLite file: a thread that commits all waiting work in one transaction (group commit).

Work that waits alone commits immediately. Where a commit costs less than waking a thread, such work commits on the
caller's thread: with `synchronous=NORMAL` always, with FULL while the disk is quick. A failed fsync ends the process,
because the state of the file is unknown.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar, cast

from archon.errors import ArchonError, DataLoss, ResourceExhausted, Unavailable
from archon.failure_kinds import STORAGE
from archon.telemetry import logs

_log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

MAX_WAITING: Final = 10_000
"""Work items that may wait; more raise ResourceExhausted."""

MAX_BATCH: Final = 512


QUICK: Final = 0.002
"""Seconds that a commit may take to count as quick: for so long an event loop may wait for the disk."""


class Witness(Protocol):
    """Is told how each transaction ended, on the thread that made it."""

    def committed(self) -> None: ...

    def rolled_back(self) -> None: ...


class Busy(Exception):
    """Other work is under way or queued: `now` cannot run at once."""


class SqliteWriter:
    """Owns the only connection that writes. `store_name` is the store's name in error messages.

    `verify` is called after each commit; if it returns a text, which says that the file is no longer the one that was
    opened, the process ends before anything is acknowledged.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        inline: bool,
        store_name: str = "journal",
        verify: Callable[[], str] = lambda: "",
        witness: Witness | None = None,
    ) -> None:
        self._verify = verify
        self._witness = witness
        self._db = connection
        self._store_name = store_name
        self._inline = inline
        self._lock = threading.Lock()
        self.is_quick = True
        """Whether the last commit took at most QUICK: then the next one may be made on the caller's thread."""
        self._work: deque[tuple[Work, bool, asyncio.Future[Any]]] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"{store_name}-writer", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[sqlite3.Connection], T], *, full: bool = False) -> T:
        """Runs `work` in a transaction and returns its result once that is committed. `full` commits with
        synchronous=FULL regardless of the setting. Raises the errors of `work`, which affect no other work, and
        ResourceExhausted if too much work waits."""
        if self._inline and not full:
            try:
                return self.now(work)
            except Busy:
                pass
        return await self.later(work, full=full)

    def now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in a transaction of its own on the calling thread. Raises Busy if other work is under way or
        queued, and the errors of the work."""
        if self._work or not self._lock.acquire(blocking=False):
            raise Busy
        try:
            return cast(T, self._commit_alone(work))
        finally:
            self._lock.release()

    @contextmanager
    def held(self) -> Iterator[None]:
        """While it is entered no work commits: `now` raises Busy, and queued work waits. Blocks."""
        with self._lock:
            yield

    def later(self, work: Callable[[sqlite3.Connection], T], *, full: bool = False) -> asyncio.Future[T]:
        """Queues `work` for the writer's thread; the future ends when it is committed. Raises ResourceExhausted if too
        much work is queued."""
        if len(self._work) >= MAX_WAITING or self._closing:
            raise ResourceExhausted(
                f"too many writes to the {self._store_name} are waiting", retry_delay=1.0, kind=STORAGE
            )
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._wake:
            self._work.append((work, full, future))
            self._wake.notify()
        return cast("asyncio.Future[T]", future)

    def close(self) -> None:
        """Commits the waiting work and ends the thread. Blocks."""
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
            try:
                with self._lock:
                    results = self._commit_batch(batch)
            except Exception as error:  # noqa: BLE001 - the thread must go on: other work waits for it
                _log.exception("the writer of the %s failed; whether this work is stored is unknown", self._store_name)
                self._rollback()
                text = f"the write to the {self._store_name} failed, and its outcome is unknown"
                results = [Unavailable(f"{text}: {error}", retry_delay=1.0, kind=STORAGE)] * len(batch)
            self._loop.call_soon_threadsafe(_resolve, [future for _, _, future in batch], results)

    def _commit_batch(self, batch: list[tuple[Work, bool, asyncio.Future[Any]]]) -> list[Any]:
        """Commits a batch in one transaction, each item behind a savepoint; if that fails, each item alone."""
        if len(batch) == 1 and not batch[0][1]:
            return [_result_or_error(self._commit_alone, batch[0][0])]
        results: list[Any] = []
        try:
            if any(full for _, full, _ in batch):
                self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")
            for work, _, _ in batch:
                self._db.execute("SAVEPOINT one")
                result = _result_or_error(work, self._db)
                if isinstance(result, sqlite3.Error):
                    raise result
                if isinstance(result, BaseException):
                    self._db.execute("ROLLBACK TO one")
                self._db.execute("RELEASE one")
                results.append(result)
            self._commit()
        except sqlite3.Error as error:
            self._rollback()
            self.exit_if_replaced()  # a possible cause of the error
            exit_on_disk_failure(error, self._store_name)
            if len(batch) == 1:
                return [to_archon_error(error, self._store_name)]
            return [_result_or_error(self._commit_alone, work) for work, _, _ in batch]
        finally:
            if self._inline:
                self._db.execute("PRAGMA synchronous = NORMAL")
        return results

    def _commit_alone(self, work: Work) -> Any:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            result = work(self._db)
            self._commit()
            return result
        except sqlite3.Error as error:
            self._rollback()
            self.exit_if_replaced()  # a possible cause of the error
            exit_on_disk_failure(error, self._store_name)
            raise to_archon_error(error, self._store_name) from error
        except BaseException:
            self._rollback()
            raise

    def _commit(self) -> None:
        began = time.perf_counter()
        self._db.execute("COMMIT")
        self.is_quick = time.perf_counter() - began <= QUICK
        self.exit_if_replaced()
        if self._witness is not None:
            self._witness.committed()

    def exit_if_replaced(self) -> None:
        """Ends the process if the file is no longer the one that was opened."""
        if reason := self._verify():
            _log.critical("%s; this process exits, since what it writes would be lost", reason)
            logs.flush()
            os._exit(74)  # EX_IOERR

    def _rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        if self._witness is not None:
            self._witness.rolled_back()


def _result_or_error(work: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return work(argument)
    except Exception as error:  # noqa: BLE001 - raised in the caller of `do`
        return error


def _resolve(futures: list[asyncio.Future[Any]], results: list[Any]) -> None:
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


def exit_on_disk_failure(error: sqlite3.Error, store_name: str = "journal") -> None:
    """Ends the process if a write or an fsync failed, because the state of the file is unknown."""
    if "disk i/o error" in str(error).lower():
        _log.critical("the disk of the %s failed, this process exits: %s", store_name, error)
        logs.flush()
        os._exit(74)  # EX_IOERR


def to_archon_error(error: sqlite3.Error, store_name: str = "journal") -> ArchonError:
    """Converts an error of SQLite: ResourceExhausted if the disk is full, DataLoss if the accessed data is damaged,
    else Unavailable."""
    if is_damage(error):
        return DataLoss(f"the {store_name} is damaged: {error}")
    if "full" in str(error).lower():
        return ResourceExhausted(f"the disk of the {store_name} is full", retry_delay=5.0, kind=STORAGE)
    return Unavailable(f"cannot use the {store_name}: {error}", retry_delay=1.0, kind=STORAGE)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite found content that no SQLite has written."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # Python sets none if it cannot decode a text
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "Could not decode" in str(error)
