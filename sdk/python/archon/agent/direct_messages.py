"""Sends messages to other instances directly: not durable, and outside of any run."""

from __future__ import annotations

import random
import uuid
from collections import OrderedDict
from types import TracebackType
from typing import Any, Final

from archon.agent.messenger import kind_of
from archon.api.agent.v1 import agent_service_pb2 as pb
from archon.api.agent.v1 import agent_service_pb2_grpc
from archon.errors import ArchonError, DeadlineExceeded, Unavailable, UnknownRole
from archon.registry import Registration, RegistryClient
from archon.registry.instance_channel import connect_to_instance, credentials_of_mesh
from archon.types.message import Message
from archon.types.message_content import content_of, to_json_value
from archon.types.message_type import MessageType

TIMEOUT: Final = 5.0
"""Seconds that an instance has to take a message."""

MAX_PEERS: Final = 64
"""Instances whose connections are kept."""


class DirectMessages:
    """Delivers messages to instances that it finds in the registry at host:port. Close it, or use it as an async
    context manager.

    A message is delivered at most once and is lost with the process that has taken it; messages of a run, which are
    durable, are sent by `TaskContext.send`."""

    def __init__(self, registry: str) -> None:
        self._registry = RegistryClient(registry)
        self._credentials = credentials_of_mesh(registry)
        self._channels: OrderedDict[str, Any] = OrderedDict()

    async def __aenter__(self) -> DirectMessages:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        channels, self._channels = list(self._channels.values()), OrderedDict()
        for channel in channels:
            await channel.close()
        await self._registry.close()

    async def send(
        self,
        content: object,
        role: str,
        *,
        instance_id: str = "",
        type: MessageType | str | None = None,
        ttl: float | None = None,
        message_id: str = "",
    ) -> str:
        """Delivers a message to an instance of a role, or to the instance with this id. Returns the id of the
        instance that has taken it.

        `type` is by default the type of the content, as in `TaskContext.send`; `ttl` is in seconds. A failed call may
        be repeated with the same `message_id`: an instance takes it once. Without an `instance_id` another instance
        is tried if one cannot be reached. Raises UnknownRole if there is no such instance, Unavailable and
        DeadlineExceeded if none answers, and the errors of the instance: Unimplemented if it takes none,
        MessageNotAllowed, ResourceExhausted and InvalidArgument."""
        kind = kind_of(content, type)
        content = to_json_value(content)
        content_of(kind, content)  # raises InvalidArgument if the content is not of the type
        message = Message("", role, kind, content, message_id=message_id or uuid.uuid4().hex, ttl=ttl)
        request = pb.DeliverRequest(request_id=message.message_id, messages=[message.proto])
        instances = await self._instances(role, instance_id)
        failure: ArchonError | None = None
        for instance in instances:
            try:
                await self._stub(instance).Deliver(request, timeout=TIMEOUT)
                return instance.instance_id
            except (Unavailable, DeadlineExceeded) as error:
                failure = error
            finally:
                await self._trim()
        assert failure is not None
        raise failure

    async def _instances(self, role: str, instance_id: str) -> list[Registration]:
        instances = await self._registry.resolve(role)
        if instance_id:
            instances = [instance for instance in instances if instance.instance_id == instance_id]
        if not instances:
            raise UnknownRole(
                f"no instance {instance_id!r} of the role {role!r} is registered", metadata={"role": role}
            )
        random.shuffle(instances)
        return instances

    async def _trim(self) -> None:
        while len(self._channels) > MAX_PEERS:
            await self._channels.popitem(last=False)[1].close(TIMEOUT)

    def _stub(self, instance: Registration) -> Any:
        key = instance.address or f"{instance.via_orchestrator}/{instance.instance_id}"
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = connect_to_instance(instance, self._credentials)
        self._channels.move_to_end(key)
        return agent_service_pb2_grpc.AgentServiceStub(channel)
