"""The state of a call that a client keeps while its person is asked: sealed with the key of all replicas, for the
identity that has called."""

from __future__ import annotations

from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.request_state import InvalidRequestState

from archon_services.common.sealing import Sealer
from archon_services.gateway.mesh_access import MeshAccess

_PURPOSE: Final = "mcp-state"


class SealedState:
    """Seals states, as the package's boundary for them wants it."""

    def __init__(self, sealer: Sealer, access: MeshAccess) -> None:
        self._sealer, self._access = sealer, access

    def seal(self, payload: bytes) -> str:
        """Returns a sealed state."""
        return self._sealer.seal(_PURPOSE, payload.decode())

    def unseal(self, token: str) -> bytes:
        """Returns the state. Raises InvalidRequestState if it was not sealed with one of the keys."""
        text = self._sealer.open(_PURPOSE, token)
        if text is None:
            raise InvalidRequestState("seal")
        return text.encode()

    def principal(self, context: ServerRequestContext[Any, Any]) -> str:
        """Returns the tenant and the identity of the caller."""
        return "\n".join(self._access.visitor.key)
