"""Client of working memory: versioned values that the tasks of a run share."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

from archon import errors
from archon.api.memory.v1 import memory_pb2, working_memory_service_pb2_grpc
from archon.api.memory.v1 import working_memory_service_pb2 as pb
from archon.channel import Option, connect, service_options
from archon.interceptors import translated
from archon.memory import values
from archon.memory.convert import text
from archon.memory.values import WorkingChange, WorkingValue
from archon.pages import LARGEST, listed
from archon.registry.retry import backoff
from archon.security.credentials import Credentials
from archon.security.peer import MEMORY
from archon.wire import to_seconds

T = TypeVar("T")

CALL_TIMEOUT: Final = 10.0
"""Seconds that a call may take by default."""

WATCH_PATIENCE: Final = 60.0
"""Seconds for which a watch waits for a service that is unreachable."""

_ATTEMPTS: Final = 4
_SERVICE: Final = "archon.api.memory.v1.WorkingMemoryService"
_SERVICE_CONFIG: Final = "grpc.service_config"


class WorkingMemoryClient:
    """A connection to the memory service at `host:port` for one scope: the id of a run.

    It connects at the first call and may be shared by tasks of one event loop. Close it, or use it as an async context
    manager. Values are JSON values of at most 1 MiB, keys have 1 to 256 characters. Calls raise Unavailable and
    DeadlineExceeded if the service is unreachable, InvalidArgument, ResourceExhausted if a limit is reached.
    """

    def __init__(
        self,
        target: str,
        scope: str,
        *,
        options: Sequence[Option] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._scope = text(scope, "scope")
        self._channel = connect(
            target, _options(target) if options is None else options, peer=MEMORY, credentials=credentials
        )
        self._stub = working_memory_service_pb2_grpc.WorkingMemoryServiceStub(self._channel)

    async def __aenter__(self) -> WorkingMemoryClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        await self._channel.close()

    def of_scope(self, scope: str) -> WorkingMemoryClient:
        """A client for another scope that shares the connection: `close` of either one closes it."""
        client = copy.copy(self)
        client._scope = text(scope, "scope")
        return client

    async def get(self, key: str, default: Any = None, *, timeout: float = CALL_TIMEOUT) -> Any:
        """Returns the value, or `default` if the key has none. Raises Unavailable and DeadlineExceeded (`timeout` in
        seconds)."""
        current = await self.get_value(key, timeout=timeout)
        return default if current is None else current.value

    async def get_value(self, key: str, *, timeout: float = CALL_TIMEOUT) -> WorkingValue | None:
        """The value with its version, or None if the key has no value."""
        request = pb.GetValueRequest(scope=self._scope, key=text(key, "key"))
        try:
            answer = await self._stub.GetValue(request, timeout=timeout)
        except errors.NotFound:
            return None
        return _read(answer.value)

    async def set(
        self, key: str, value: Any, expected_version: int | None = None, *, timeout: float = CALL_TIMEOUT
    ) -> int:
        """Writes a value and returns its version. With `expected_version` it writes only if that is the current
        version; 0 means that the key has no value.

        Raises Aborted / CONFLICT if the current version is another one. After Unavailable or DeadlineExceeded the value
        may have been written: read it before you try again with an `expected_version`.
        """
        return await self.set_json(key, values.to_json(value), expected_version, timeout=timeout)

    async def set_json(
        self, key: str, value_json: str, expected_version: int | None = None, *, timeout: float = CALL_TIMEOUT
    ) -> int:
        """Like `set`, for a value that is already JSON."""
        request = pb.SetValueRequest(
            scope=self._scope,
            key=text(key, "key"),
            value_json=text(value_json, "value_json"),
            expected_version=_expected(expected_version),
        )
        values.check_size(len(value_json.encode()))

        async def once(left: float) -> int:
            return (await self._stub.SetValue(request, timeout=left)).value.version

        return await (_repeated(once, timeout) if expected_version is None else once(timeout))

    async def update(self, values: Mapping[str, Any], *, timeout: float = CALL_TIMEOUT) -> None:
        """Writes several values one by one, each within `timeout`."""
        for key, value in dict(values).items():
            await self.set(key, value, timeout=timeout)

    async def delete(self, key: str, expected_version: int | None = None, *, timeout: float = CALL_TIMEOUT) -> bool:
        """Deletes a value; its versions continue. Returns whether there was one. Raises Aborted / CONFLICT if the
        current version is not `expected_version`."""
        request = pb.DeleteValueRequest(
            scope=self._scope, key=text(key, "key"), expected_version=_expected(expected_version)
        )

        async def once(left: float) -> bool:
            return (await self._stub.DeleteValue(request, timeout=left)).deleted

        return await (_repeated(once, timeout) if expected_version is None else once(timeout))

    async def clear(self) -> None:
        """Deletes all current values, one by one."""
        for value in await self.list_values():
            await self.delete(value.key)

    async def version(self, key: str) -> int:
        """The current version, or 0 if the key has no value."""
        current = await self.get_value(key)
        return 0 if current is None else current.version

    async def to_dict(self) -> dict[str, Any]:
        """All values by key. They are read page by page: concurrent writes may be included or not."""
        return {value.key: value.value for value in await self.list_values()}

    async def list_values(self, prefix: str = "", *, timeout: float = CALL_TIMEOUT) -> list[WorkingValue]:
        """All values with versions, sorted by key, whose keys begin with `prefix`. `timeout` applies to each page."""
        request = pb.ListValuesRequest(scope=self._scope, page_size=LARGEST, prefix=text(prefix, "prefix"))
        return await listed(self._stub.ListValues, request, "values", _read, timeout=timeout)

    async def watch(self, prefix: str = "", *, patience: float = WATCH_PATIENCE) -> AsyncGenerator[WorkingChange, None]:
        """Yields the values whose keys begin with `prefix`, and then each change: a value that changes several times
        before it is read may come only in its last version. After an outage it goes on with the values that have
        changed since. Close the iterator (contextlib.aclosing) or cancel its task.

        Raises Unavailable if the service is unreachable for `patience` seconds, InvalidArgument, and ResourceExhausted
        if there are too many watches for as long.
        """
        known: dict[str, int] = {}
        heard, failures = time.monotonic(), 0
        request = pb.WatchValuesRequest(scope=self._scope, prefix=text(prefix, "prefix"))
        while True:
            missing = set(known)
            try:
                stream = cast(AsyncGenerator[pb.WatchValuesResponse, None], translated(self._stub.WatchValues(request)))
                async with aclosing(stream) as responses:
                    async for response in responses:
                        heard, failures = time.monotonic(), 0
                        for message in response.values:
                            missing.discard(message.key)
                            if message.version != known.get(message.key):
                                known[message.key] = message.version
                                yield WorkingChange(message.key, _read(message))
                        gone = set(response.deleted_keys)
                        if response.is_current:
                            gone, missing = gone | missing, set()
                        for key in sorted(gone & known.keys()):
                            del known[key]
                            yield WorkingChange(key)
                error: errors.ArchonError = errors.Unavailable("the memory service has ended the watch")
            except (errors.Unavailable, errors.ResourceExhausted, errors.DeadlineExceeded) as raised:
                error = raised
            if time.monotonic() - heard > patience:
                raise error
            await asyncio.sleep(backoff(failures, error, longest=1.0))
            failures += 1


async def _repeated(once: Callable[[float], Awaitable[T]], timeout: float) -> T:
    """Repeats an idempotent call while the service is unavailable."""
    end = time.monotonic() + timeout
    for attempt in range(_ATTEMPTS):
        try:
            return await once(max(0.001, end - time.monotonic()))
        except errors.Unavailable as error:
            wait = backoff(attempt, error, longest=1.0)
            if attempt == _ATTEMPTS - 1 or time.monotonic() + wait >= end:
                raise
            await asyncio.sleep(wait)
    raise AssertionError("unreachable")


def _options(target: str) -> list[Option]:
    """The options for services, except that gRPC repeats no write: a repeated write whose first answer was lost would
    conflict with its own version."""
    reads = [{"service": _SERVICE, "method": name} for name in ("GetValue", "ListValues")]
    options: list[Option] = []
    for name, value in service_options(target):
        if name == _SERVICE_CONFIG:
            config = json.loads(str(value))
            for method in config["methodConfig"]:
                method["name"] = reads
            value = json.dumps(config)
        options.append((name, value))
    return options


def _expected(version: int | None) -> int | None:
    if version is not None and (not isinstance(version, int) or not 0 <= version < 2**63):
        raise errors.InvalidArgument(
            f"invalid expected_version {version!r}: must be a version, or 0 for no value",
            field_violations=[errors.FieldViolation("expected_version", "a version, or 0 for no value")],
        )
    return version


def _read(message: memory_pb2.WorkingValue) -> WorkingValue:
    try:
        value = values.from_json(message.value_json)
    except ValueError as error:
        raise errors.DataLoss(f"the value of {message.key!r} cannot be read: {error}") from None
    return WorkingValue(message.key, value, message.version, to_seconds(message.update_time))
