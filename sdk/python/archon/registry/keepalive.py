"""Keeps all leases of a client alive on one stream, which is opened again after any outage."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, cast

from archon import errors
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.background import BackgroundLoop
from archon.interceptors import translated
from archon.registry.registration_handle import RegistrationHandle
from archon.registry.retry import backoff
from archon.wire import to_seconds

_MAX_LEASES: Final = 1_000
"""Leases in one message."""

_log = logging.getLogger(__name__)


class Keepalive:
    """Renews the lease of each handle every third of its duration. Renewals due at the same time share a message."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._handles: dict[RegistrationHandle, float] = {}
        """When each handle was last named in a message."""
        self._changed = asyncio.Event()
        self._loop = BackgroundLoop("registry keepalive", self._run)

    def add(self, handle: RegistrationHandle) -> None:
        """Renews the handle whenever it has a lease."""
        self._handles[handle] = 0.0
        self.wake()
        self._loop.start()

    def remove(self, handle: RegistrationHandle) -> None:
        """Stops renewing the lease of the handle, which expires after its seconds. Idempotent."""
        self._handles.pop(handle, None)

    def handles(self) -> list[RegistrationHandle]:
        """The handles that are renewed."""
        return list(self._handles)

    def wake(self) -> None:
        """Notices that a handle has a new lease."""
        self._changed.set()

    async def close(self) -> None:
        """Stops renewing: leases expire unless their instances are deregistered. Idempotent."""
        await self._loop.close()

    async def _run(self) -> None:
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                await self._renew_on_one_stream()
            except (errors.ArchonError, TimeoutError) as error:
                _log.info("the keepalive stream broke, opening another: %s", error or "no answer in time")
            for handle in self._handles:
                handle.lapse()
            attempt = 0 if time.monotonic() - began > 5 else attempt + 1
            await asyncio.sleep(backoff(attempt, longest=0.5))

    async def _renew_on_one_stream(self) -> None:
        """Returns if the registry ends the stream; raises if it breaks or an answer is late."""
        requests: asyncio.Queue[pb.KeepAliveRequest | None] = asyncio.Queue(1)
        due = await self._due()
        answers = cast(
            AsyncGenerator[pb.KeepAliveResponse, None], translated(self._stub.KeepAlive(_messages(requests)))
        )
        try:
            while True:
                for start in range(0, len(due), _MAX_LEASES):
                    part = due[start : start + _MAX_LEASES]
                    sent = time.monotonic()
                    for handle in part:
                        self._handles[handle] = sent
                    async with asyncio.timeout(max(1.0, min(handle.ttl for handle in part) / 3)):
                        ids, tokens = [handle.instance_id for handle in part], [handle.token for handle in part]
                        await requests.put(pb.KeepAliveRequest(instance_ids=ids, tokens=tokens))
                        answer = await anext(answers)
                    left = {lease.instance_id: to_seconds(lease.ttl) for lease in answer.leases}
                    for handle in part:
                        if handle in self._handles:
                            handle.renewal(sent, left.get(handle.instance_id, 0.0))
                due = await self._due()
        except StopAsyncIteration:
            return
        finally:
            await answers.aclose()
            while not requests.empty():
                requests.get_nowait()
            requests.put_nowait(None)  # ends the task in which gRPC reads the requests

    async def _due(self) -> list[RegistrationHandle]:
        """Waits until a lease is due for renewal."""
        while True:
            self._changed.clear()
            now = time.monotonic()
            next_time = {
                handle: max(handle.renewed, named) + handle.ttl / 3
                for handle, named in self._handles.items()
                if handle.has_lease
            }
            soon = [handle for handle, at in next_time.items() if at <= now + handle.ttl / 30]
            if soon:
                return soon
            try:
                async with asyncio.timeout(min(next_time.values()) - now if next_time else None):
                    await self._changed.wait()
            except TimeoutError:
                pass


async def _messages(requests: asyncio.Queue[pb.KeepAliveRequest | None]) -> AsyncIterator[pb.KeepAliveRequest]:
    while (message := await requests.get()) is not None:
        yield message
