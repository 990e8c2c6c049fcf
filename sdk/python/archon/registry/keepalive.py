"""Keeps all leases of a client alive on one stream, which is made again after any outage."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, cast

from archon import errors
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.interceptors import translated
from archon.registry.handle import RegistrationHandle
from archon.registry.retry import pause
from archon.wire import to_seconds

_MOST: Final = 1_000
"""Leases that one message names."""

_log = logging.getLogger(__name__)


class Beats:
    """Renews each handle's lease every third of it. What is due at about the same time goes in one message."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._handles: dict[RegistrationHandle, float] = {}
        """Each handle, and when it was last named in a beat."""
        self._news = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    def add(self, handle: RegistrationHandle) -> None:
        """From now on renewed, whenever it has a lease."""
        self._handles[handle] = 0.0
        self.wake()
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat_for_ever(), name="registry: beats")

    def remove(self, handle: RegistrationHandle) -> None:
        """Not renewed any more."""
        self._handles.pop(handle, None)

    def handles(self) -> list[RegistrationHandle]:
        """Those that are renewed."""
        return list(self._handles)

    def wake(self) -> None:
        """A handle has a new lease."""
        self._news.set()

    async def close(self) -> None:
        """Stops beating."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])

    async def _beat_for_ever(self) -> None:
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                await self._beat_on_one_stream()
            except (errors.ArchonError, TimeoutError) as error:
                _log.info("the stream of renewals broke, making another: %s", error or "no answer in time")
            for handle in self._handles:
                handle.lapse()
            attempt = 0 if time.monotonic() - began > 5 else attempt + 1
            await asyncio.sleep(pause(attempt, longest=0.5))

    async def _beat_on_one_stream(self) -> None:
        """Ends where the registry ends it; raises where it breaks or no answer comes in time."""
        requests: asyncio.Queue[pb.KeepAliveRequest | None] = asyncio.Queue(1)
        due = await self._due()
        answers = cast(
            AsyncGenerator[pb.KeepAliveResponse, None], translated(self._stub.KeepAlive(_messages(requests)))
        )
        try:
            while True:
                for start in range(0, len(due), _MOST):
                    part = due[start : start + _MOST]
                    sent = time.monotonic()
                    for handle in part:
                        self._handles[handle] = sent
                    async with asyncio.timeout(max(1.0, min(handle.ttl for handle in part) / 3)):
                        await requests.put(pb.KeepAliveRequest(instance_ids=[handle.instance_id for handle in part]))
                        answer = await anext(answers)
                    left = {lease.instance_id: to_seconds(lease.ttl) for lease in answer.leases}
                    for handle in part:
                        if handle in self._handles:
                            handle.beat(sent, left.get(handle.instance_id, 0.0))
                due = await self._due()
        except StopAsyncIteration:
            return
        finally:
            await answers.aclose()
            while not requests.empty():
                requests.get_nowait()
            requests.put_nowait(None)  # gRPC's own task that reads them ends, too

    async def _due(self) -> list[RegistrationHandle]:
        """Waits until a lease is to be renewed."""
        while True:
            self._news.clear()
            now = time.monotonic()
            next_time = {
                handle: max(handle.renewed, named) + handle.ttl / 3
                for handle, named in self._handles.items()
                if handle.beats
            }
            soon = [handle for handle, at in next_time.items() if at <= now + handle.ttl / 30]
            if soon:
                return soon
            try:
                async with asyncio.timeout(min(next_time.values()) - now if next_time else None):
                    await self._news.wait()
            except TimeoutError:
                pass


async def _messages(requests: asyncio.Queue[pb.KeepAliveRequest | None]) -> AsyncIterator[pb.KeepAliveRequest]:
    while (message := await requests.get()) is not None:
        yield message
