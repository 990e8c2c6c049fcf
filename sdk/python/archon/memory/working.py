"""Working memory over the wire: versioned values that the tasks of a run share, with the method names of the local one,
awaited."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from archon import errors
from archon.api.memory.v1 import memory_pb2, working_memory_service_pb2_grpc
from archon.api.memory.v1 import working_memory_service_pb2 as pb
from archon.channel import Option, connect, service_options
from archon.memory import values
from archon.memory.convert import text
from archon.memory.values import WorkingValue
from archon.registry.retry import pause
from archon.wire import to_seconds

T = TypeVar("T")

CALL_TIMEOUT: Final = 10.0
"""Seconds that a call may take where nobody says otherwise."""

_PAGE: Final = 1_000
_TRIES: Final = 4
_SERVICE: Final = "archon.api.memory.v1.WorkingMemoryService"
_SERVICE_CONFIG: Final = "grpc.service_config"


class WorkingMemoryClient:
    """A connection to the memory service at `host:port`, about one scope: a run's id.

    Lazy; safe to share among tasks of one loop. Close it, or use it as an async context manager. Values are JSON values
    of at most 1 MiB, keys have 1 to 256 characters. Calls raise Archon's errors: Unavailable and DeadlineExceeded where
    the service can't be reached, InvalidArgument, ResourceExhausted where a bound is reached.
    """

    def __init__(self, target: str, scope: str, *, options: Sequence[Option] | None = None) -> None:
        self._scope = text(scope, "scope")
        self._channel = connect(target, _options() if options is None else options)
        self._stub = working_memory_service_pb2_grpc.WorkingMemoryServiceStub(self._channel)

    async def __aenter__(self) -> WorkingMemoryClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        await self._channel.close()

    def of_scope(self, scope: str) -> WorkingMemoryClient:
        """Of another scope, over the same connection: either's `close` closes it."""
        twin = copy.copy(self)
        twin._scope = text(scope, "scope")
        return twin

    async def get(self, key: str, default: Any = None, *, timeout: float = CALL_TIMEOUT) -> Any:
        """The value, or the default."""
        found = await self.get_value(key, timeout=timeout)
        return default if found is None else found.value

    async def get_value(self, key: str, *, timeout: float = CALL_TIMEOUT) -> WorkingValue | None:
        """The value with its version; None where nothing stands."""
        request = pb.GetValueRequest(scope=self._scope, key=text(key, "key"))
        try:
            answer = await self._stub.GetValue(request, timeout=timeout)
        except errors.NotFound:
            return None
        return _read(answer.value)

    async def set(
        self, key: str, value: Any, expected_version: int | None = None, *, timeout: float = CALL_TIMEOUT
    ) -> int:
        """Writes it; the version that it has now. `expected_version` writes only where that version stands, 0: only
        where nothing does.

        Raises Aborted / CONFLICT where another version stands. Where Unavailable or DeadlineExceeded is raised it may
        have been written all the same: read it before an `expected_version` is tried again.
        """
        return await self.set_json(key, values.to_json(value), expected_version, timeout=timeout)

    async def set_json(
        self, key: str, value_json: str, expected_version: int | None = None, *, timeout: float = CALL_TIMEOUT
    ) -> int:
        """As `set`, for a value that is JSON already."""
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

    async def update(self, given: Mapping[str, Any], *, timeout: float = CALL_TIMEOUT) -> None:
        """Writes several, one by one, each within `timeout`."""
        for key, value in dict(given).items():
            await self.set(key, value, timeout=timeout)

    async def delete(self, key: str, expected_version: int | None = None, *, timeout: float = CALL_TIMEOUT) -> bool:
        """Takes it away; its versions go on from where they were. Whether it stood. Raises Aborted / CONFLICT where
        something stands that isn't of `expected_version`."""
        request = pb.DeleteValueRequest(
            scope=self._scope, key=text(key, "key"), expected_version=_expected(expected_version)
        )

        async def once(left: float) -> bool:
            return (await self._stub.DeleteValue(request, timeout=left)).deleted

        return await (_repeated(once, timeout) if expected_version is None else once(timeout))

    async def clear(self) -> None:
        """Takes away, one by one, all that stands now."""
        for one in await self.list_values():
            await self.delete(one.key)

    async def version(self, key: str) -> int:
        """The version that stands; 0 where nothing does."""
        found = await self.get_value(key)
        return 0 if found is None else found.version

    async def to_dict(self) -> dict[str, Any]:
        """All values, by key. Read page by page: what is written meanwhile may be among them or not."""
        return {one.key: one.value for one in await self.list_values()}

    async def list_values(self, prefix: str = "", *, timeout: float = CALL_TIMEOUT) -> list[WorkingValue]:
        """As `to_dict`, with versions, by key; only keys that begin so. `timeout` is of each page."""
        found: list[WorkingValue] = []
        token = ""
        while True:
            request = pb.ListValuesRequest(
                scope=self._scope, page_size=_PAGE, page_token=token, prefix=text(prefix, "prefix")
            )
            page = await self._stub.ListValues(request, timeout=timeout)
            found += map(_read, page.values)
            token = page.next_page_token
            if not token:
                return found


async def _repeated(once: Callable[[float], Awaitable[T]], timeout: float) -> T:
    """For what comes to the same when it is done twice."""
    end = time.monotonic() + timeout
    for attempt in range(_TRIES):
        try:
            return await once(max(0.001, end - time.monotonic()))
        except errors.Unavailable as error:
            wait = pause(attempt, error, longest=1.0)
            if attempt == _TRIES - 1 or time.monotonic() + wait >= end:
                raise
            await asyncio.sleep(wait)
    raise AssertionError("unreachable")


def _options() -> list[Option]:
    """As for every service, but that gRPC repeats no write: one that was done and whose answer was lost would find its
    own version in its way."""
    reads = [{"service": _SERVICE, "method": name} for name in ("GetValue", "ListValues")]
    options: list[Option] = []
    for name, value in service_options():
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
            f"expected_version is {version!r}: a version, or 0 for nothing",
            field_violations=[errors.FieldViolation("expected_version", "a version, or 0 for nothing")],
        )
    return version


def _read(message: memory_pb2.WorkingValue) -> WorkingValue:
    try:
        value = values.from_json(message.value_json)
    except ValueError as error:
        raise errors.DataLoss(f"the value of {message.key!r} can't be read: {error}") from None
    return WorkingValue(message.key, value, message.version, to_seconds(message.update_time))
