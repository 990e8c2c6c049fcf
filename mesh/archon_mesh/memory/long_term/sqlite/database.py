"""Runs functions of an apsw connection on threads: one thread writes, a few read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from archon.errors import ArchonError, DataLoss, FailedPrecondition, ResourceExhausted, Unavailable
from archon.failure_kinds import STORAGE
from archon.private_files import private_file, private_folder
from archon_mesh.llm.extras import import_extra
from archon_mesh.memory.write_ahead_log import use_write_ahead_log

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")

TIMEOUT: Final = 30.0
"""Seconds that an operation may take, in all."""

READERS: Final = 2
"""Threads that read."""

MAX_WAITING: Final = 256
"""Operations in flight, those that wait for a thread included."""

_MAPPED: Final = 1024 * 1024 * 1024
"""Bytes of the file that are read in place."""

_BUSY_TIMEOUT: Final = 5_000
"""Milliseconds that a statement waits for a lock of another process."""


class Database:
    """A SQLite file in WAL mode with sqlite-vec, or `:memory:`, which has one connection only.

    `prepare` runs once, on the connection that writes.
    """

    def __init__(self, file: Path, prepare: Callable[[apsw.Connection], None], *, name: str = "long-term") -> None:
        self._file = file
        self._is_in_memory = str(file) == ":memory:"
        self._prepare = prepare
        self._name = name
        self._pools: dict[bool, ThreadPoolExecutor] = {}
        self._connections: list[apsw.Connection] = []
        self._local = threading.local()
        self._lock = threading.Lock()
        self._waiting = 0
        self._open_lock = asyncio.Lock()
        self._is_wanted = False

    async def open(self) -> None:
        """Opens the file and creates its missing parts. Idempotent. If it fails, the next operation tries again.

        Raises FailedPrecondition if a package is missing, Unavailable, DataLoss if the file is not a valid database.
        """
        self._is_wanted = True
        async with self._open_lock:
            if self._pools:
                return
            import_extra("apsw", "long-term")
            import_extra("sqlite_vec", "long-term")
            try:
                if not self._is_in_memory:
                    private_folder(self._file.parent)
                    private_file(self._file)
            except OSError as error:
                raise Unavailable(
                    f"cannot create {self._file}: {error.strerror}", retry_delay=5.0, kind=STORAGE
                ) from error
            self._pools = {
                True: ThreadPoolExecutor(1, thread_name_prefix=f"{self._name} write"),
                False: ThreadPoolExecutor(READERS, thread_name_prefix=f"{self._name} read"),
            }
            try:
                await self._run(self._prepare, writes=True)
            except BaseException:
                await self._shut()
                raise

    async def close(self) -> None:
        """Waits for operations in flight, up to TIMEOUT seconds, and closes all connections. Idempotent."""
        self._is_wanted = False
        await self._shut()

    async def _shut(self) -> None:
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            pool.shutdown(wait=False)
        if pools:
            end = asyncio.get_running_loop().time() + TIMEOUT
            while self._waiting and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 - no event reports it
                await asyncio.sleep(0.01)
        with self._lock:
            connections, self._connections = self._connections, []
            self._local = threading.local()
        if not self._waiting:
            for connection in connections:
                connection.close()

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work` in a transaction; its writes are durable on return. Raises the errors of `LongTermStore`."""

        def transaction(connection: apsw.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            try:
                value = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return value

        return await self._run(transaction, writes=True)

    async def alone(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work` on the connection that writes, outside a transaction."""
        return await self._run(work, writes=True)

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work`, which only reads. Raises the errors of `LongTermStore`."""

        def snapshot(connection: apsw.Connection) -> T:
            with connection:
                value = work(connection)
            return value  # noqa: RET504 - mypy takes the context manager for one that hides exceptions

        return await self._run(snapshot, writes=self._is_in_memory)

    async def _run(self, work: Callable[[apsw.Connection], T], *, writes: bool) -> T:
        if not self._pools:
            if not self._is_wanted:
                raise Unavailable("the long-term store is closed", kind=STORAGE)
            await self.open()
        if self._waiting >= MAX_WAITING:
            raise ResourceExhausted("too many operations of long-term memory in flight", retry_delay=0.5, kind=STORAGE)
        local = self._local

        def on_thread() -> T:
            connection = getattr(local, "connection", None)
            if connection is None:
                connection = local.connection = self._connect()
            return work(connection)

        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pools[writes], on_thread)
        future.add_done_callback(self._done)
        try:
            async with asyncio.timeout(TIMEOUT):
                return await asyncio.shield(future)
        except ArchonError:
            raise
        except TimeoutError:
            raise Unavailable(
                f"no answer of the long-term store within {TIMEOUT:g} s", retry_delay=1.0, kind=STORAGE
            ) from None
        except Exception as error:
            converted = to_archon_error(error)
            if converted is None:
                raise
            raise converted from error

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # mark it as retrieved, in case the caller is gone

    def _connect(self) -> apsw.Connection:
        import apsw

        connection = apsw.Connection(str(self._file))
        connection.set_busy_timeout(_BUSY_TIMEOUT)
        connection.enable_load_extension(True)
        connection.load_extension(import_extra("sqlite_vec", "long-term").loadable_path())
        connection.enable_load_extension(False)
        # Vectors are read in pieces of many pages: larger pages, and reading them in place, halve the time of a search.
        connection.execute("PRAGMA page_size = 16384")
        use_write_ahead_log(connection)
        connection.execute(f"PRAGMA mmap_size = {_MAPPED}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        with self._lock:
            self._connections.append(connection)
        return connection


def fetch(connection: apsw.Connection, query: str, arguments: Sequence[Any] = ()) -> list[Sequence[Any]]:
    """Returns all rows of a query."""
    return list(connection.execute(query, arguments))


def to_archon_error(error: Exception) -> ArchonError | None:
    """Returns the Archon error for one of apsw or the file system, or None if it is neither."""
    import apsw

    message = f"the long-term store: {error}"
    if isinstance(error, apsw.FullError):
        return ResourceExhausted(message, retry_delay=5.0, kind=STORAGE)
    if isinstance(error, (apsw.NotADBError, apsw.CorruptError)):
        return DataLoss(message)
    if isinstance(error, (apsw.BusyError, apsw.LockedError, apsw.IOError, apsw.CantOpenError, OSError)):
        return Unavailable(message, retry_delay=1.0, kind=STORAGE)
    if isinstance(error, (apsw.ReadOnlyError, apsw.PermissionsError)):
        return FailedPrecondition(message)
    return None
