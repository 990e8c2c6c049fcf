"""What agents share within a run, across the mesh: the storage of an agent that works on a task begins with the run's
working memory, and what it writes is written there too."""

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

from archon import context
from archon.agent import TaskContext
from archon.errors import ArchonError, InvalidArgument
from archon.memory import WorkingMemoryClient, WorkingValue
from archon.memory.values import check_key, to_json
from archon.registry.retry import backoff, is_transient
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.hooks.points import HookContext
from archon_mesh.agent.state.global_storage import GlobalStorage

_log = logging.getLogger(__name__)

READ_TIMEOUT: Final = 1.0
"""Seconds that a task waits for the run's values; then it goes on with what it has."""

FLUSH_TIMEOUT: Final = 2.0
"""Seconds that a result waits for what the task wrote."""

AT_ONCE: Final = 16
OUTAGE: Final = 5.0
"""Seconds after a read that failed in which tasks don't ask, and results don't wait: a service that is down must not
cost each task its time-outs."""

MAX_WAITING: Final = 16 * 1024 * 1024
"""Characters that may wait to be written; a key that is written again waits once. What is above stays here."""


@dataclass(slots=True)
class Connection:
    """To one memory service, for all tasks of a process. `down_until` in monotonic seconds."""

    client: WorkingMemoryClient
    down_until: float = 0.0


class RunStorage(GlobalStorage):
    """See GlobalStorage. Only JSON values travel; any other stays in this process, and what others write under its key
    doesn't replace it. Of two who write a key the later one counts. A service that can't be reached costs its time-outs
    and nothing else: values stay here, and the log says so once."""

    def __init__(self, client: WorkingMemoryClient, task_id: str, connection: Connection | None = None) -> None:
        super().__init__()
        self._client = client
        self._connection = connection or Connection(client)
        self._task_id = task_id
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, str | None] = {}
        self._under_way: dict[str, str | None] = {}
        self._size = 0
        self._known: dict[str, int] = {}
        self._kept: set[str] = set()
        self._taking = False
        self._closed = False
        self._has_told = False
        self._news = asyncio.Event()
        self._round = asyncio.Event()
        self._has_failed = False
        self._sending = asyncio.create_task(self._send(), name="run values")

    async def refresh(self) -> None:
        """Takes over what others have written since. Never fails."""
        if self._is_down:
            return
        before = dict(self._known)
        try:
            async with asyncio.timeout(context.timeout(READ_TIMEOUT)):
                found = await self._client.list_values(timeout=READ_TIMEOUT)
        except (ArchonError, TimeoutError) as error:
            self._connection.down_until = time.monotonic() + OUTAGE
            self._tell_once("can't be read", error)
            return
        self._take(found, before)

    async def flush(self, timeout: float = FLUSH_TIMEOUT, *, once: bool = False) -> None:
        """Returns when all that was written is durable, or the time is over; with `once` also when it can't be now.
        Never fails."""
        self._has_failed = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(context.timeout(timeout)):
                while (self._waiting or self._under_way) and not (self._has_failed and (once or self._is_down)):
                    self._round.clear()
                    await self._round.wait()

    @property
    def _is_down(self) -> bool:
        return time.monotonic() < self._connection.down_until

    async def close(self) -> None:
        """What isn't written by now stays here."""
        self._sending.cancel()
        await asyncio.wait([self._sending], timeout=1.0)
        with self._lock:
            left = {**self._under_way, **self._waiting}
            self._closed = True  # a thread that goes on writes for this process alone
        if left:
            self._tell_once("aren't all written", ", ".join(map(repr, sorted(left)[:5])))

    def _tell(self, key: str, value: Any, version: int) -> None:
        super()._tell(key, value, version)
        if self._taking or self._closed:
            return
        if not version and key in self._kept and key not in self._known:
            self._kept.discard(key)  # the run has never had it
            return
        try:
            said = to_json(value) if version else None
            check_key(key)
            room = MAX_WAITING - self._size + len(self._waiting.get(key) or "")
            is_shared = len(said or "") <= room
            why: object = f"too much waits to be written; {key!r} isn't shared"
        except ArchonError as error:
            is_shared, why = False, "" if isinstance(error, InvalidArgument) else f"{key!r}: {error}"
        self._size -= len(self._waiting.pop(key, None) or "")
        if not is_shared:
            self._kept.add(key)
            if why:
                self._tell_once("can't all be written", why)
            return
        self._kept.discard(key)
        self._waiting[key] = said
        self._size += len(said or "")
        self._loop.call_soon_threadsafe(self._news.set)

    def _take(self, found: Sequence[WorkingValue], before: dict[str, int]) -> None:
        """`before` is what was known when they were asked for: what was there then and isn't now was deleted."""
        with self._lock:
            self._taking = True
            try:
                mine = self._waiting.keys() | self._under_way.keys() | self._kept
                for one in found:
                    if one.version <= self._known.get(one.key, 0):
                        continue
                    if one.key not in mine:
                        self._known[one.key] = one.version
                        self._versions[one.key] = max(self.version(one.key), one.version - 1)  # and one with this write
                        self.set(one.key, one.value)
                gone = before.keys() - {one.key for one in found} - mine
                for key in gone:
                    if self._known.get(key) == before[key]:
                        self.pop(key)
            finally:
                self._taking = False

    async def _send(self) -> None:
        failed = 0
        while True:
            await self._news.wait()
            with self._lock:
                batch = dict(list(self._waiting.items())[:AT_ONCE])
                for key, said in batch.items():
                    del self._waiting[key]
                    self._size -= len(said or "")
                self._under_way = batch
                if not batch:
                    self._news.clear()
            errors = await asyncio.gather(*(self._one(key, said) for key, said in batch.items()))
            lost = [error for error in errors if error is not None]
            self._under_way = {}
            self._has_failed = self._has_failed or bool(lost)
            self._round.set()
            failed = failed + 1 if lost else 0
            if lost:
                await asyncio.sleep(backoff(failed - 1, lost[0], longest=0.5))

    async def _one(self, key: str, said: str | None) -> ArchonError | None:
        """What it failed with, where it waits to be tried again."""
        try:
            if said is None:
                await self._client.delete(key, timeout=READ_TIMEOUT)
            else:
                version = await self._client.set_json(key, said, timeout=READ_TIMEOUT)
                self._known[key] = max(version, self._known.get(key, 0))
        except ArchonError as error:
            self._tell_once("can't be written", error)
            with self._lock:
                if not is_transient(error) or (error.code == "RESOURCE_EXHAUSTED" and error.retry_delay is None):
                    self._kept.add(key)
                    return None
                if key not in self._waiting:
                    self._waiting[key] = said
                    self._size += len(said or "")
            return error
        return None

    def _tell_once(self, what: str, why: object) -> None:
        if not self._has_told:
            self._has_told = True
            _log.warning("task %s: values of its run %s, they stay in this process: %s", self._task_id, what, why)


class RunValues(Middleware):
    """Whoever is called sees what was written before; whoever called, what they wrote."""

    def __init__(self, storage: RunStorage) -> None:
        self._storage = storage

    async def before_tool(self, hook: HookContext) -> None:
        """Before a sub-agent, which may work elsewhere."""
        if hook.tool_call is not None and hook.tool_call.name in hook.agent.sub_agents:
            await self._storage.flush(once=True)

    async def after_tool(self, hook: HookContext) -> None:
        """After one."""
        if hook.tool_call is not None and hook.tool_call.name in hook.agent.sub_agents:
            await self._storage.refresh()


@asynccontextmanager
async def run_values(task: TaskContext, target: str) -> AsyncIterator[RunStorage | None]:
    """The storage for a task's agent; `target` is the memory service's host:port. None where there is none, or no run:
    a task that was given directly has its own id for one. What was written in the block is durable when it ends, or
    FLUSH_TIMEOUT is over."""
    if not target or not task.run_id or task.run_id == task.task_id:
        yield None
        return
    connection = _connection(target)
    storage = RunStorage(connection.client.of_scope(task.run_id), task.task_id, connection)
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
    """One for all tasks of a process: a new one for each would cost more than what it carries."""
    known = _connections.setdefault(asyncio.get_running_loop(), {})
    if target not in known:
        known[target] = Connection(WorkingMemoryClient(target, ""))
    return known[target]
