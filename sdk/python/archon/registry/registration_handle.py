"""A registration that is kept: registered again whenever the registry has lost it, until it is closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from archon import errors
from archon.background import BackgroundLoop
from archon.registry import convert
from archon.registry.graph import Lease, RefusedEdge
from archon.registry.registration import Registration
from archon.registry.retry import backoff, is_transient

CALL_TIMEOUT: Final = 6.0
"""Seconds for one RegisterInstance; the registry gives up on its store earlier."""

CLOSE_TIMEOUT: Final = 2.0
"""Seconds for one DeregisterInstance; if it fails the lease expires."""

_log = logging.getLogger(__name__)

Register = Callable[[Registration, str], Awaitable[Lease]]
"""Registers once, with the token of the owner."""


class RegistrationHandle:
    """A live registration, from `RegistryClient.register`. Close it when the process stops serving."""

    def __init__(
        self,
        registration: Registration,
        register: Register,
        deregister: Callable[[str, str], Awaitable[None]],
        on_leased: Callable[[], None],
        token: str,
    ) -> None:
        self.registration = registration
        """The content that is registered, or will be."""
        self.registered = asyncio.Event()
        """Set while the registry is known to hold the registration."""
        self.refused: tuple[RefusedEdge, ...] = ()
        """Edges of its depends_on that would close a cycle, as of the last answer."""
        self.error: errors.ArchonError | None = None
        """Why the last attempt to register failed, or None."""
        self.invalid = asyncio.Event()
        """Set once the registry has refused the content as invalid: no further attempt succeeds with it."""
        self.ttl = max(1.0, registration.ttl)
        """The lease in seconds, as granted."""
        self.renewed = 0.0
        """When the last answered renewal was sent, on the monotonic clock."""
        self.token = token
        """The secret by which the registry recognizes this client as the owner."""
        self._register = register
        self._deregister = deregister
        self._on_leased = on_leased
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._tried = asyncio.Event()
        self._loop = BackgroundLoop(f"registration of {registration.instance_id}", self._keep)
        self._closed: asyncio.Task[None] | None = None

    @property
    def instance_id(self) -> str:
        """The key of the registration."""
        return self.registration.instance_id

    def start(self) -> None:
        """Registers in the background, until `close`."""
        self._loop.start()

    async def first_answer(self, timeout: float) -> None:
        """Waits until the registry holds the registration, at most `timeout` seconds. Raises errors that are not
        transient, such as InvalidArgument."""
        try:
            async with asyncio.timeout(timeout):
                while not self.registered.is_set():
                    self._tried.clear()
                    await self._tried.wait()
                    if self.error is not None and not is_transient(self.error):
                        raise self.error
        except TimeoutError:
            pass

    async def update(self, registration: Registration, *, timeout: float = 10.0) -> None:
        """Registers other content under the same instance_id. If the registry refuses it, the error is raised and the
        former content stays registered. If the registry is unreachable for `timeout` seconds it returns and continues
        in the background."""
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
        """Registers again: the registry has lost the registration or holds other content."""
        self.registered.clear()
        self._wanted.set()

    def lapse(self) -> None:
        """Clears `registered` if no renewal was answered for a whole lease: it may have expired."""
        if self.registered.is_set() and time.monotonic() - self.renewed > self.ttl:
            self.registered.clear()

    def renewal(self, began: float, left: float) -> None:
        """Takes the answer to a renewal sent at `began`: `left` seconds of lease, 0 if it has expired."""
        if left <= 0:
            self.lost()
        elif not self._wanted.is_set():
            self.ttl, self.renewed = left, began
            self.registered.set()

    @property
    def has_lease(self) -> bool:
        """True if there is a lease to renew."""
        return not self._wanted.is_set()

    async def _keep(self) -> None:
        if not self.registered.is_set():
            self._wanted.set()
        attempt, logged = 0, ""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            began, registration = time.monotonic(), self.registration
            try:
                lease = await self._register(registration, self.token)
            except errors.ArchonError as error:
                self.error = error
                if isinstance(error, errors.InvalidArgument):
                    self.invalid.set()
                self._wanted.set()
                self._tried.set()
                if attempt == 0 or (not is_transient(error) and str(error) != logged):
                    _log.warning("%s is not registered, trying again: %s", self.instance_id, error)
                    logged = str(error)
                await asyncio.sleep(backoff(attempt, error))
                attempt += 1
                continue
            if self._wanted.is_set():  # the content has changed meanwhile
                continue
            attempt, self.error = 0, None
            self.refused = lease.refused
            for refused in self.refused:
                _log.warning(
                    "an edge of %s is refused because it would close the cycle %s", self.instance_id, refused.cycle
                )
            self.ttl, self.renewed = lease.ttl or self.ttl, began
            self.registered.set()
            self._tried.set()
            self._on_leased()

    async def close(self) -> None:
        """Stops renewing and deregisters, within about two seconds; if the registry is unreachable the lease expires.
        Idempotent."""
        if self._closed is None:
            self._closed = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closed)

    async def abandon(self) -> None:
        """Stops without deregistering: the registration was refused; the instance_id may belong to another owner."""
        await self._loop.close()
        self.registered.clear()

    async def _close(self) -> None:
        await self.abandon()
        try:
            await self._deregister(self.instance_id, self.token)
        except errors.ArchonError as error:
            _log.info("%s could not be deregistered, its lease will expire: %s", self.instance_id, error)
