"""Storage that the agents of a run share across the mesh.

The storage of an agent that works on a task starts with the run's working memory, and its writes go there too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from typing_extensions import override

from archon import context
from archon.agent import TaskContext
from archon.background import BackgroundLoop
from archon.errors import ArchonError, InvalidArgument
from archon.memory import WorkingMemoryClient, WorkingValue
from archon.memory.values import check_key, to_json
from archon.registry.retry import backoff, is_transient
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.state.global_storage import GlobalStorage

_log = logging.getLogger(__name__)

READ_TIMEOUT: Final = 1.0
"""Seconds that a task waits for the run's values; after that it continues with its own."""

FLUSH_TIMEOUT: Final = 2.0
"""Seconds that a result waits for the task's writes."""

BATCH_SIZE: Final = 16
"""Values that are written concurrently."""

OUTAGE: Final = 5.0
"""Seconds after a failed read in which tasks do not read and results do not wait, so that an outage of the service does
not cost every task its timeouts."""

MAX_PENDING: Final = 16 * 1024 * 1024
"""Characters that may wait to be written; a key that is written again waits once. Values above it stay local."""


@dataclass(slots=True)
class Connection:
    """A connection to one memory service, shared by all tasks of a process. `down_until` is in monotonic seconds."""

    client: WorkingMemoryClient
    down_until: float = 0.0


class SharedStorage(GlobalStorage):
    """A GlobalStorage whose JSON values are shared with all agents of a run. The last write of a key wins.

    A value that is not JSON stays in this process, and is not replaced by writes of others to its key. If the service
    is unreachable, values stay in this process, and the log says so once; the only cost is the timeouts.
    """

    def __init__(self, client: WorkingMemoryClient, task_id: str, connection: Connection | None = None) -> None:
        super().__init__()
        self._client = client
        self._connection = connection or Connection(client)
        self._task_id = task_id
        self._loop = asyncio.get_running_loop()
        # Values as JSON, None for a removal: waiting to be written, and being written.
        self._pending: dict[str, str | None] = {}
        self._in_flight: dict[str, str | None] = {}
        self._pending_size = 0
        self._remote_versions: dict[str, int] = {}
        self._local_only: set[str] = set()
        self._is_merging = False
        self._is_closed = False
        self._has_warned = False
        self._has_pending = asyncio.Event()
        self._batch_done = asyncio.Event()
        self._has_failed = False
        self._writer = BackgroundLoop("shared storage", self._write_pending)
        self._writer.start()

    async def refresh(self) -> None:
        """Merges the writes of others. Never raises."""
        if self._is_down:
            return
        versions_before = dict(self._remote_versions)
        try:
            async with asyncio.timeout(context.timeout(READ_TIMEOUT)):
                values = await self._client.list_values(timeout=READ_TIMEOUT)
        except (ArchonError, TimeoutError) as error:
            self._connection.down_until = time.monotonic() + OUTAGE
            self._warn_once("cannot be read", error)
            return
        self._merge(values, versions_before)

    async def flush(self, timeout: float = FLUSH_TIMEOUT, *, once: bool = False) -> None:
        """Returns when all writes are durable, or after `timeout` seconds; with `once` also after a failed attempt.

        Never raises.
        """
        self._has_failed = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(context.timeout(timeout)):
                while (self._pending or self._in_flight) and not (self._has_failed and (once or self._is_down)):
                    self._batch_done.clear()
                    await self._batch_done.wait()

    @property
    def _is_down(self) -> bool:
        return time.monotonic() < self._connection.down_until

    async def close(self) -> None:
        """Stops writing. Values that are not written yet stay in this process."""
        await self._writer.close(timeout=1.0)
        with self._lock:
            unwritten = {**self._in_flight, **self._pending}
            self._is_closed = True  # a tool's thread may still write, to this process only
        if unwritten:
            self._warn_once("are not all written", ", ".join(map(repr, sorted(unwritten)[:5])))

    @override
    def _notify(self, key: str, value: Any, version: int) -> None:
        super()._notify(key, value, version)
        if self._is_merging or self._is_closed:
            return
        if not version and key in self._local_only and key not in self._remote_versions:
            self._local_only.discard(key)  # a removal that the service need not hear of
            return
        try:
            value_json = to_json(value) if version else None
            check_key(key)
            available = MAX_PENDING - self._pending_size + len(self._pending.get(key) or "")
            is_shared = len(value_json or "") <= available
            reason: object = f"too many pending writes; {key!r} is not shared"
        except ArchonError as error:
            is_shared, reason = False, "" if isinstance(error, InvalidArgument) else f"{key!r}: {error}"
        self._pending_size -= len(self._pending.pop(key, None) or "")
        if not is_shared:
            self._local_only.add(key)
            if reason:
                self._warn_once("cannot all be written", reason)
            return
        self._local_only.discard(key)
        self._pending[key] = value_json
        self._pending_size += len(value_json or "")
        self._loop.call_soon_threadsafe(self._has_pending.set)

    def _merge(self, values: Sequence[WorkingValue], versions_before: dict[str, int]) -> None:
        """`versions_before` are the versions at the time of the request: a key in it without a value was removed."""
        with self._lock:
            self._is_merging = True
            try:
                own_keys = self._pending.keys() | self._in_flight.keys() | self._local_only
                for value in values:
                    if value.version <= self._remote_versions.get(value.key, 0) or value.key in own_keys:
                        continue
                    self._remote_versions[value.key] = value.version
                    # One less, because `set` counts this write too.
                    self._versions[value.key] = max(self.version(value.key), value.version - 1)
                    self.set(value.key, value.value)
                removed = versions_before.keys() - {value.key for value in values} - own_keys
                for key in removed:
                    if self._remote_versions.get(key) == versions_before[key]:
                        self.pop(key)
            finally:
                self._is_merging = False

    async def _write_pending(self) -> None:
        with self._lock:  # writes that an unexpected exception has interrupted
            self._pending = {**self._in_flight, **self._pending}
            self._pending_size = sum(len(value_json or "") for value_json in self._pending.values())
            self._in_flight = {}
        failures = 0
        while True:
            await self._has_pending.wait()
            with self._lock:
                batch = dict(list(self._pending.items())[:BATCH_SIZE])
                for key, value_json in batch.items():
                    del self._pending[key]
                    self._pending_size -= len(value_json or "")
                self._in_flight = batch
                if not batch:
                    self._has_pending.clear()
            results = await asyncio.gather(*(self._write(key, value_json) for key, value_json in batch.items()))
            errors = [error for error in results if error is not None]
            self._in_flight = {}
            self._has_failed = self._has_failed or bool(errors)
            self._batch_done.set()
            failures = failures + 1 if errors else 0
            if errors:
                await asyncio.sleep(backoff(failures - 1, errors[0], longest=0.5))

    async def _write(self, key: str, value_json: str | None) -> ArchonError | None:
        """Writes or removes one value. Returns the error of a failed write that is pending again."""
        try:
            if value_json is None:
                await self._client.delete(key, timeout=READ_TIMEOUT)
            else:
                version = await self._client.set_json(key, value_json, timeout=READ_TIMEOUT)
                self._remote_versions[key] = max(version, self._remote_versions.get(key, 0))
        except ArchonError as error:
            self._warn_once("cannot be written", error)
            with self._lock:
                if not is_transient(error) or (error.code == "RESOURCE_EXHAUSTED" and error.retry_delay is None):
                    self._local_only.add(key)
                    return None
                if key not in self._pending:
                    self._pending[key] = value_json
                    self._pending_size += len(value_json or "")
            return error
        return None

    def _warn_once(self, problem: str, reason: object) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("task %s: values of its run %s, they stay in this process: %s", self._task_id, problem, reason)


class SharedStorageMiddleware(Middleware):
    """Writes the agent's values before it calls a sub-agent, which may run elsewhere, and reads theirs afterwards."""

    def __init__(self, storage: SharedStorage) -> None:
        self._storage = storage

    @override
    async def before_tool(self, hook: HookContext) -> None:
        if hook.tool_call is not None and hook.tool_call.name in hook.agent.sub_agents:
            await self._storage.flush(once=True)

    @override
    async def after_tool(self, hook: HookContext) -> None:
        if hook.tool_call is not None and hook.tool_call.name in hook.agent.sub_agents:
            await self._storage.refresh()


@asynccontextmanager
async def open_shared_storage(task: TaskContext, target: str) -> AsyncIterator[SharedStorage | None]:
    """Yields the storage for a task's agent; `target` is the host:port of the memory service.

    Yields None if there is no target or the task belongs to no run; a task that was assigned directly has its own id as
    its run id. Writes of the block are durable when it ends, or FLUSH_TIMEOUT later.
    """
    if not target or not task.run_id or task.run_id == task.task_id:
        yield None
        return
    connection = _connection(target)
    storage = SharedStorage(connection.client.of_scope(task.run_id), task.task_id, connection)
    try:
        await storage.refresh()
        try:
            yield storage
        except Exception:
            await storage.flush()
            raise
        await storage.flush()
    finally:
        await storage.close()


_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Connection]] = WeakKeyDictionary()


def _connection(target: str) -> Connection:
    """Returns the connection of this event loop to the service; one per task would cost more than its calls."""
    connections = _connections.setdefault(asyncio.get_running_loop(), {})
    if target not in connections:
        connections[target] = Connection(WorkingMemoryClient(target, ""))
    return connections[target]
