"""Connections to the other replicas, for calls of agents that are attached there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Any, Final

import grpc.aio

from archon.api.agent.v1 import attach_service_pb2 as pb
from archon.channel import attach_options, connect
from archon.interceptors import translated
from archon.security.credentials import INSTANCE_KEY

CALLER_KEY: Final = "archon-relayed-caller-bin"
"""Metadata of a call that another replica has passed on: its caller. Such a call is not passed on again."""

MAX_REPLICAS: Final = 32
"""Replicas that connections are kept with."""


class ReplicaChannels:
    """One connection for each replica that was needed."""

    def __init__(self) -> None:
        self._channels: OrderedDict[str, grpc.aio.Channel] = OrderedDict()

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        channels, self._channels = list(self._channels.values()), OrderedDict()
        for channel in channels:
            await channel.close()

    async def call(
        self, address: str, instance_id: str, method: str, request: bytes, caller: pb.Caller | None
    ) -> AsyncGenerator[bytes, None]:
        """Relays a call through the replica at `address`, and yields its responses. Raises the errors of the call."""
        channel = await self._channel(address)
        metadata = (
            (INSTANCE_KEY, instance_id),
            (CALLER_KEY, (caller or pb.Caller()).SerializeToString()),
        )
        # A call with one response is a stream of one, for the client: both have the same frames.
        stub: Any = channel.unary_stream(method)
        responses: Any = translated(stub(request, metadata=metadata))
        try:
            async for response in responses:
                yield response
        finally:
            await responses.aclose()

    async def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = connect(address, attach_options())
        self._channels.move_to_end(address)
        if len(self._channels) > MAX_REPLICAS:
            await self._channels.popitem(last=False)[1].close()
        return channel
