"""The instances that are attached to this orchestrator."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from archon.errors import InvalidArgument, ResourceExhausted, Unavailable
from archon.registry import Registration
from archon_services.orchestrator.attach.instance import AttachedInstance
from archon_services.orchestrator.attach.stream import AttachStream

_log = logging.getLogger(__name__)

MAX_INSTANCES: Final = 5_000
"""Instances that may be attached to one orchestrator at a time."""

SPARE_TIMEOUT: Final = 2.0
"""Seconds that a session waits for a spare stream: an agent opens the next one when a session takes one."""

CLOSE_TIMEOUT: Final = 5.0
"""Seconds within which a registration is ended, or given up."""


class AttachRelay:
    """Registers attached instances at `registry` (host:port), and pairs sessions with their streams. `address` must be
    set to this orchestrator's address before the first agent attaches."""

    def __init__(self, registry: str) -> None:
        self.address = ""
        self._registry = registry
        self._instances: dict[str, AttachedInstance] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        """The number of attached instances."""
        return len(self._instances)

    async def admit(self, registration: Registration, token: str) -> AttachedInstance:
        """Returns the instance, once it is registered under this orchestrator's address, or will be when the registry
        answers. Raises Unavailable if this orchestrator stops, ResourceExhausted if too many are attached,
        PermissionDenied if another client has attached under the instance_id, and the errors of the registry."""
        if self._closed or not self.address:
            raise Unavailable("this orchestrator takes no agents now: attach again", retry_delay=0.1)
        instance = self._instances.get(registration.instance_id)
        if instance is not None:
            instance.check_owner(token)
            await instance.register(registration)
            return instance
        if len(self._instances) >= MAX_INSTANCES:
            raise ResourceExhausted(f"{MAX_INSTANCES:,} agents are attached here, which is the limit", retry_delay=5.0)
        instance = self._instances[registration.instance_id] = AttachedInstance(self._registry, token, self._gone)
        try:
            await instance.register(registration)
        except BaseException:
            self._forget(registration.instance_id, instance)
            await instance.abandon()
            raise
        _log.info("%s is attached", registration.instance_id)
        return instance

    def find(self, instance_id: str) -> AttachedInstance | None:
        """Returns an instance that is attached here."""
        return self._instances.get(instance_id)

    async def take(self, instance_id: str) -> AttachStream:
        """Returns a spare stream of an instance. Raises InvalidArgument without an id, Unavailable if it is not
        attached here, or has no spare stream within SPARE_TIMEOUT."""
        if not instance_id:
            raise InvalidArgument("the first frame of a session is Open, with the instance_id of an attached agent")
        instance = self._instances.get(instance_id)
        stream = await instance.spare(SPARE_TIMEOUT) if instance is not None else None
        if stream is None:
            reason = "has no stream for a further session" if instance is not None else "is not attached here"
            raise Unavailable(f"{instance_id[:128]} {reason}", metadata={"instance_id": instance_id[:128]})
        return stream

    def _forget(self, instance_id: str, instance: AttachedInstance) -> None:
        if self._instances.get(instance_id) is instance:
            del self._instances[instance_id]

    def ended(self, instance: AttachedInstance, stream: AttachStream, *, broken: bool) -> asyncio.Task[None] | None:
        """A stream has ended. An instance without streams is deregistered: after a while if the last one is `broken` or
        carried a call of an agent that stays, since it attaches again, else by the task that is returned."""
        instance.remove(stream)
        if broken or (stream.carried_call and not instance.leaves):  # the agent has others, or opens one
            return None
        instance.leaves = True
        return self._gone(instance)

    def _gone(self, instance: AttachedInstance) -> asyncio.Task[None] | None:
        if instance.attached or self._instances.get(instance.instance_id) is not instance:
            return None
        _log.info("%s has left", instance.instance_id)
        self._forget(instance.instance_id, instance)
        task = asyncio.create_task(_within(instance.leave()), name=f"detach-{instance.instance_id}")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return task

    async def close(self) -> None:
        """Ends all streams; the agents attach elsewhere, and take their registrations with them. Idempotent."""
        self._closed = True
        instances = list(self._instances.values())
        self._instances.clear()
        for instance in instances:
            instance.end(Unavailable("this orchestrator is stopping", retry_delay=0.1))
        await asyncio.gather(*(_within(instance.abandon()) for instance in instances), *self._leaving)


async def _within(ending: object) -> None:
    """Awaits the end of a registration for CLOSE_TIMEOUT seconds at most; the lease ends it otherwise."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await ending  # type: ignore[misc]
    except TimeoutError:
        _log.info("a registration could not be ended: its lease will expire")
