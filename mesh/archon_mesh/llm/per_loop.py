"""A client of its own for each event loop: connections belong to the loop in which they were made, and a model may be
used by several loops, one after another or in threads at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Clients that `create` makes. The first one is made at once, which imports its packages."""

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._spare: T | None = create()
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    @property
    def current(self) -> T:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._clients.get(loop)
            if client is None:
                client, self._spare = self._spare or self._create(), None
                self._clients[loop] = client
            return client

    async def close(self) -> None:
        """Closes the client of the running event loop; others end with their loops. Idempotent."""
        with self._lock:
            client: Any = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
