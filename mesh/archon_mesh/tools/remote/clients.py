"""The clients of shared tools of this process: one for each registry and event loop, shared by the remote tools."""

from __future__ import annotations

import asyncio
import os
from weakref import WeakKeyDictionary

from archon.tools import ToolClient


class _Shared:
    """A client, and the number of tools that use it."""

    def __init__(self, client: ToolClient) -> None:
        self.client = client
        self.users = 0


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Shared]] = WeakKeyDictionary()


def acquire(registry: str) -> ToolClient:
    """Returns the client for a registry (host:port) in this event loop. Each call is followed by one of `release`."""
    of_loop = _clients.setdefault(asyncio.get_running_loop(), {})
    shared = of_loop.get(registry)
    if shared is None:
        shared = of_loop[registry] = _Shared(ToolClient(registry, instance_id=f"process-{os.getpid()}"))
    shared.users += 1
    return shared.client


async def release(client: ToolClient) -> None:
    """Closes a client that no other tool uses."""
    of_loop = _clients.get(asyncio.get_running_loop(), {})
    for registry, shared in list(of_loop.items()):
        if shared.client is client:
            shared.users -= 1
            if not shared.users:
                del of_loop[registry]
                await client.close()
