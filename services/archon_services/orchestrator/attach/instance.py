"""An instance that is attached here: its registration, which this orchestrator keeps, and its streams."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from archon import context
from archon.errors import Aborted, ArchonError, CallsNotRelayed, PermissionDenied
from archon.registry import Registration, RegistrationHandle, RegistryClient
from archon_services.orchestrator.attach.call_load import CallLoad
from archon_services.orchestrator.attach.stream import AttachStream

_log = logging.getLogger(__name__)

MAX_SPARES: Final = 4
"""Streams of an instance that may wait for a session; a further one ends the oldest, whose connection may be gone."""

LEAVE_AFTER: Final = 3.0
"""Seconds from the loss of the last stream until the instance is deregistered; it attaches again earlier."""

CHECK_TIMEOUT: Final = 2.0
"""Seconds for the question to the registry whether the instance is attached elsewhere by now."""


class AttachedInstance:
    """`token` is the secret of the agent's process, by which it is recognized at every orchestrator; `gone` is called
    with it once it has no stream for LEAVE_AFTER seconds."""

    def __init__(self, registry: str, token: str, gone: Callable[[AttachedInstance], object]) -> None:
        call = context.current()
        self._owner = call.tenant, call.identity
        self._token = token
        self._gone = gone
        self._streams: set[AttachStream] = set()
        self._spares: deque[AttachStream] = deque()
        self._spare_came = asyncio.Event()
        self._takes_calls: bool | None = None
        """Whether the agent takes relayed calls, by its newest stream; None before the first one."""
        self._sessions_waiting = 0
        self.load = CallLoad()
        """The relayed calls in progress."""
        self.leaves = False
        """Whether the agent has ended a stream, other than one of a call, since it opened the last one."""
        self._leaving: asyncio.TimerHandle | None = None
        self._handle: RegistrationHandle | None = None
        self._lock = asyncio.Lock()
        self._client = RegistryClient(registry, token=token)

    @property
    def instance_id(self) -> str:
        """Empty before it is registered."""
        return self._handle.instance_id if self._handle is not None else ""

    def check_owner(self, token: str) -> None:
        """Raises PermissionDenied if another client attaches under the id of this instance."""
        call = context.current()
        if (call.tenant, call.identity) != self._owner or not hmac.compare_digest(self._token, token):
            raise PermissionDenied("the instance_id is attached by another client", reason="PERMISSION_DENIED")

    async def register(self, registration: Registration) -> None:
        """Registers the instance, again if it has changed. Raises the errors of RegistryClient.register."""
        async with self._lock:
            # The loops that renew the registration outlive this call: they act for its caller, without its deadline.
            with context.serving(replace(context.current(), deadline=None)):
                if self._handle is None:
                    self._handle = await self._client.register(registration)
                elif registration != self._handle.registration:
                    await self._handle.update(registration)
                elif not self._streams:
                    self._handle.lost()  # it may have been attached elsewhere meanwhile

    def add(self, stream: AttachStream) -> None:
        """Adds a spare stream."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        self.leaves = False
        self._streams.add(stream)
        self._spares.append(stream)
        self._takes_calls = stream.takes_calls
        if len(self._spares) > MAX_SPARES:
            self._spares.popleft().end(Aborted("the agent has attached again", reason="SESSION_REPLACED"))
        self._spare_came.set()

    def remove(self, stream: AttachStream) -> None:
        """Removes a stream that has ended."""
        self._streams.discard(stream)
        if stream in self._spares:
            self._spares.remove(stream)
        if not self._streams and self._leaving is None:
            self._leaving = asyncio.get_running_loop().call_later(LEAVE_AFTER, self._gone, self)

    @property
    def tenant(self) -> str:
        """The tenant of the agent."""
        return self._owner[0]

    @property
    def attached(self) -> bool:
        """Whether it has a stream."""
        return bool(self._streams)

    async def spare(self, timeout: float) -> AttachStream | None:
        """Returns a spare stream for a session, the newest one; None if there is none within `timeout` seconds."""
        self._sessions_waiting += 1
        try:
            return await self._take(timeout, lambda: True)
        finally:
            self._sessions_waiting -= 1
            self._spare_came.set()  # calls go on

    async def spare_for_call(self, timeout: float) -> AttachStream | None:
        """Like `spare`, for a call: sessions are served first. Raises CallsNotRelayed if the agent takes none."""

        def may_take() -> bool:
            if self._takes_calls is False:
                raise CallsNotRelayed(
                    f"{self.instance_id} takes no calls through an orchestrator: install the current SDK where it "
                    "runs, or start it where others can dial it",
                    metadata={"instance_id": self.instance_id},
                )
            return not self._sessions_waiting

        return await self._take(timeout, may_take)

    async def _take(self, timeout: float, may_take: Callable[[], bool]) -> AttachStream | None:
        try:
            async with asyncio.timeout(timeout):
                while True:
                    while may_take() and self._spares:
                        stream = self._spares.pop()
                        if stream.spare:
                            return stream
                    self._spare_came.clear()
                    await self._spare_came.wait()
        except TimeoutError:
            return None

    def end(self, error: ArchonError) -> None:
        """Ends all of its streams."""
        if self._leaving is not None:
            self._leaving.cancel()
        for stream in list(self._streams):
            stream.end(error)

    async def leave(self) -> None:
        """Deregisters it, unless it is attached to another orchestrator by now."""
        if self._handle is not None and await self._is_elsewhere(self._handle.registration):
            await self._client.abandon()
        else:
            await self._client.close()

    async def abandon(self) -> None:
        """Stops renewing the registration, which another orchestrator may take over until its lease expires."""
        await self._client.abandon()

    async def _is_elsewhere(self, own: Registration) -> bool:
        try:
            found = await self._client.list_instances(own.role, timeout=CHECK_TIMEOUT)
        except ArchonError as error:
            _log.info("the registry does not say where %s is attached: %s", own.instance_id, error)
            return False
        via = next((each.via_orchestrator for each in found if each.instance_id == own.instance_id), "")
        return bool(via) and via != own.via_orchestrator
