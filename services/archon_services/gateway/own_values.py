"""Values that the gateway keeps for itself in the working memory of the mesh, so that all replicas have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from archon.context import CallContext, serving
from archon.errors import Unavailable
from archon.memory.working import WorkingMemoryClient
from archon_services.gateway.room import Gateway

TENANT: Final = "archon-gateway"
"""The tenant of these values: agents and people of other tenants neither read nor write them."""


class OwnValues:
    """A connection to the memory service with the credentials of the gateway, in a tenant of its own; None without a
    memory service. An async context manager that closes it. Scopes are deleted 30 days after the last write."""

    def __init__(self, values: WorkingMemoryClient | None) -> None:
        self._values = values

    @classmethod
    def of(cls, gateway: Gateway) -> OwnValues:
        """Returns the values at the memory service of the settings."""
        memory = gateway.settings.memory
        return cls(WorkingMemoryClient(memory, TENANT) if memory else None)

    @contextmanager
    def scope(self, name: str) -> Iterator[WorkingMemoryClient]:
        """Yields the client of a scope, whose calls within the block are made in the tenant of the gateway. Raises
        Unavailable if the gateway has no memory service."""
        if self._values is None:
            raise Unavailable("the HTTP gateway has no memory service, which keeps this")
        with serving(CallContext(tenant=TENANT)):
            yield self._values.of_scope(name)

    async def __aenter__(self) -> OwnValues:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._values is not None:
            await self._values.close()
