"""One registration that stays: made again whenever the registry lost it, until it is closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from archon import errors
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.registry import convert
from archon.registry.graph import RefusedEdge
from archon.registry.registration import Registration
from archon.registry.retry import passes, pause
from archon.wire import to_seconds

CALL_TIMEOUT: Final = 6.0
"""Seconds for one RegisterInstance; the registry itself gives up on its store before that."""

CLOSE_TIMEOUT: Final = 2.0
"""Seconds for a DeregisterInstance; where it fails the lease runs out by itself."""

_log = logging.getLogger(__name__)

Call = Callable[[pb.RegisterInstanceRequest], Awaitable[pb.RegisterInstanceResponse]]


class RegistrationHandle:
    """A live registration, from `RegistryClient.register`. Close it when the process stops serving."""

    def __init__(
        self,
        registration: Registration,
        register: Call,
        deregister: Callable[[str], Awaitable[None]],
        leased: Callable[[], None],
    ) -> None:
        self.registration = registration
        """What is registered, or to be."""
        self.registered = asyncio.Event()
        """Set while the registry is known to hold the registration."""
        self.refused: tuple[RefusedEdge, ...] = ()
        """Edges of its depends_on that would close a cycle, as of the last answer."""
        self.error: errors.ArchonError | None = None
        """Why it isn't registered, as of the last attempt."""
        self.ttl = max(1.0, registration.ttl)
        """The lease in seconds, as granted."""
        self.renewed = 0.0
        """When the last renewal that was answered began, on the monotonic clock."""
        self._register = register
        self._deregister = deregister
        self._leased = leased
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._tried = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._closed: asyncio.Task[None] | None = None

    @property
    def instance_id(self) -> str:
        """The key of the registration."""
        return self.registration.instance_id

    def start(self) -> None:
        """Begins to register, and goes on until `close`."""
        self._keeping = asyncio.create_task(self._keep(), name=f"registration of {self.instance_id}")

    async def first_answer(self, timeout: float) -> None:
        """Waits until it is registered, at most `timeout` seconds. Raises what can't pass by itself, such as
        InvalidArgument; anything else is left to the background."""
        try:
            async with asyncio.timeout(timeout):
                while not self.registered.is_set():
                    self._tried.clear()
                    await self._tried.wait()
                    if self.error is not None and not passes(self.error):
                        raise self.error
        except TimeoutError:
            pass

    async def update(self, registration: Registration, *, timeout: float = 10.0) -> None:
        """Registers other content under the same instance_id. Raises InvalidArgument and the like, and then leaves
        what was registered as it is; while the registry can't be reached it returns after `timeout` seconds and goes
        on trying."""
        before = self.registration
        self.registration = replace(registration, instance_id=self.instance_id)
        convert.registration_to_proto(self.registration)
        self.lost()
        try:
            await self.first_answer(timeout)
        except errors.ArchonError:
            self.registration = before
            self.lost()
            raise

    def lost(self) -> None:
        """The registry doesn't hold it any more, or other content: registers again."""
        self.registered.clear()
        self._wanted.set()

    def lapse(self) -> None:
        """No renewal was answered for a whole lease: it may be gone, and the next beat will tell."""
        if self.registered.is_set() and time.monotonic() - self.renewed > self.ttl:
            self.registered.clear()

    def beat(self, began: float, left: float) -> None:
        """A renewal that was sent at `began` was answered; `left` seconds of lease, 0 where it is gone."""
        if left <= 0:
            self.lost()
        elif not self._wanted.is_set():
            self.ttl, self.renewed = left, began
            self.registered.set()

    @property
    def beats(self) -> bool:
        """Whether there is a lease to renew."""
        return not self._wanted.is_set()

    async def _keep(self) -> None:
        attempt = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            began, wanted = time.monotonic(), self.registration
            try:
                message = convert.registration_to_proto(wanted)
                answer = await self._register(pb.RegisterInstanceRequest(registration=message))
            except errors.ArchonError as error:
                self.error = error
                self._wanted.set()
                self._tried.set()
                if attempt == 0 or not passes(error):
                    _log.warning("%s isn't registered, trying again: %s", self.instance_id, error)
                await asyncio.sleep(pause(attempt, error))
                attempt += 1
                continue
            if self._wanted.is_set():  # other content meanwhile
                continue
            attempt, self.error = 0, None
            self.refused = convert.refused_from_proto(answer.refused_edges)
            for refused in self.refused:
                _log.warning("an edge of %s is refused, it would close %s", self.instance_id, refused.cycle)
            self.ttl, self.renewed = to_seconds(answer.ttl) or self.ttl, began
            self.registered.set()
            self._tried.set()
            self._leased()

    async def close(self) -> None:
        """Stops renewing and deregisters, within about two seconds; where the registry can't be reached the lease
        runs out by itself. Idempotent."""
        if self._closed is None:
            self._closed = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closed)

    async def abandon(self) -> None:
        """Stops without deregistering: it was refused, and the instance_id may be somebody else's."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        self.registered.clear()

    async def _close(self) -> None:
        await self.abandon()
        try:
            await self._deregister(self.instance_id)
        except errors.ArchonError as error:
            _log.info("%s could not be deregistered, its lease will run out: %s", self.instance_id, error)
