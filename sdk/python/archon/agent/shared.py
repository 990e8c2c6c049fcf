"""Values that the tasks of a run share: `TaskContext.shared`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from archon.errors import Aborted, FailedPrecondition

if TYPE_CHECKING:
    from archon.types.message_content import InformationShare

MAX_UPDATES: Final = 100
"""How often an update is tried while other tasks write the same key."""

CHECK_PAUSE: Final = 5.0
"""Seconds without comparisons of answers with facts after the memory service was unreachable."""

MAX_ANNOUNCED: Final = 32 * 1024
"""Bytes of a value, as JSON, that is announced with its key; of a larger one the key alone is."""


class SharedValue(Protocol):
    """A value with the number of writes of its key, from 1 on. `timestamp` is in seconds since the Unix epoch."""

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> Any: ...

    @property
    def version(self) -> int: ...

    @property
    def timestamp(self) -> float: ...


class SharedChange(Protocol):
    """A change of a key: its present value, or None if it was deleted."""

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> SharedValue | None: ...


class Values(Protocol):
    """The part of a WorkingMemoryClient that tasks use."""

    async def get_value(self, key: str) -> SharedValue | None: ...

    async def set(self, key: str, value: Any, expected_version: int | None = None) -> int: ...

    async def delete(self, key: str, expected_version: int | None = None) -> bool: ...

    async def list_values(self, prefix: str = "") -> Sequence[SharedValue]: ...

    def watch(self, prefix: str = "") -> AsyncGenerator[Any, None]: ...


Announce = Callable[["InformationShare", str], Awaitable[object]]
"""Sends a message, with its id, to the subscribers of its type."""


class SharedConnection:
    """The connection of an agent to the memory service at `target` (host:port), made by the first task that shares."""

    def __init__(self, target: str = "") -> None:
        self._target = target
        self._client: Any = None
        self._checks_after = 0.0

    def values(self, run_id: str) -> Values:
        """Returns the values of a run. Raises FailedPrecondition without a memory service."""
        if not self._target:
            raise FailedPrecondition("no memory service is configured (ARCHON_MEMORY): tasks share no values")
        if self._client is None:
            # By name: agents are a layer beside memory, and most tasks share nothing.
            self._client = import_module("archon.memory.working").WorkingMemoryClient(self._target, run_id)
        values: Values = self._client.of_scope(run_id)
        return values

    def is_checked(self, now: float) -> bool:
        """Whether answers are compared with facts now, in monotonic seconds: there is a memory service, and it was not
        found unreachable just before."""
        return bool(self._target) and now >= self._checks_after

    def pause_checks(self, now: float) -> None:
        """Compares no answers with facts for a while: an outage must not cost each task its time limit."""
        self._checks_after = now + CHECK_PAUSE

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class SharedContext:
    """The values of one run: JSON values under keys, each with a version. The same values are the storage of agents.

    Each call raises Unavailable or DeadlineExceeded if the memory service is unreachable, InvalidArgument for a key or
    a value that is not valid, and ResourceExhausted if a limit is reached."""

    def __init__(self, values: Values, announce: Announce) -> None:
        self._values = values
        self._announce = announce

    async def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key, or `default` if it has none. Raises Unavailable if the memory service is down."""
        current = await self._values.get_value(key)
        return default if current is None else current.value

    async def get_value(self, key: str) -> SharedValue | None:
        """Returns the value of a key with its version, or None if it has none."""
        return await self._values.get_value(key)

    async def set(self, key: str, value: Any, expected_version: int | None = None, *, announce: bool = False) -> int:
        """Writes a value and returns its version. With `expected_version` it writes only if that is the current
        version; 0 means that the key has no value.

        With `announce` a message of type `information_share` goes to the tasks of the run that have subscribed to it:
        the key and, up to 32 KiB, the value. If the message is refused, the value is written all the same.

        Raises Aborted / CONFLICT if the current version is another one, and the errors of `TaskContext.send`. After
        Unavailable or DeadlineExceeded the value may have been written.
        """
        version = await self._values.set(key, value, expected_version)
        if announce:
            await self._tell(key, value, version)
        return version

    async def update(
        self, key: str, function: Callable[[Any], Any], default: Any = None, *, announce: bool = False
    ) -> Any:
        """Replaces the value of a key by `function` of it, of `default` if it has none, and returns the new value. The
        function is called again if another task writes in between; it must not change its argument.

        Raises Aborted / CONFLICT after 100 tries, and the errors of `set`.
        """
        for tried in range(1, MAX_UPDATES + 1):
            current = await self._values.get_value(key)
            value = function(default if current is None else current.value)
            try:
                await self.set(key, value, 0 if current is None else current.version, announce=announce)
                return value
            except Aborted:
                if tried == MAX_UPDATES:
                    raise
            await asyncio.sleep(random.uniform(0.0, min(0.001 * 2**tried, 0.1)))
        raise AssertionError("unreachable")

    async def delete(self, key: str, expected_version: int | None = None) -> bool:
        """Deletes a value; its versions continue. Returns whether there was one. Raises Aborted / CONFLICT if the
        current version is not `expected_version`."""
        return await self._values.delete(key, expected_version)

    async def list(self, prefix: str = "") -> dict[str, Any]:
        """Returns the values whose keys begin with `prefix`, by key."""
        return {value.key: value.value for value in await self._values.list_values(prefix)}

    def watch(self, prefix: str = "") -> AsyncGenerator[SharedChange, None]:
        """Yields the values whose keys begin with `prefix`, and then each change. A value that changes several times
        before it is read may come only in its last version. It goes on after an outage of the memory service."""
        return self._values.watch(prefix)

    async def _tell(self, key: str, value: Any, version: int) -> None:
        from archon.types.message_content import InformationShare  # most tasks announce nothing

        is_small = len(json.dumps(value, ensure_ascii=False).encode()) <= MAX_ANNOUNCED
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        await self._announce(InformationShare(key, value if is_small else None), f"shared-{digest}-{version}")
