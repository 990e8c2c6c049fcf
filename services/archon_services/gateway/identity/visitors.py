"""Who makes a request over HTTP, and the credentials with which its calls go on to the services of the mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from archon.errors import TokenMissing
from archon.security.authenticator import Authenticator, Caller, Open
from archon.security.credentials import IDENTITY_KEY, TENANT_KEY

_FORWARDED: Final = ("authorization", IDENTITY_KEY, TENANT_KEY, "traceparent", "tracestate")
"""Headers that go on as metadata. A service decides whether a caller may act for others."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who makes a request: the caller as the services of the mesh know it, and the metadata of calls on its behalf."""

    caller: Caller
    metadata: tuple[tuple[str, str], ...]


class Visitors:
    """Identifies visitors by the keys and the policy of the mesh, as its services do."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def of(self, headers: Mapping[str, str], rpc: str) -> Visitor:
        """Returns who makes a request with these headers, whose effect is that of `rpc`, such as
        `/archon.api.orchestrator.v1.OrchestratorService/GetRun`. Raises Unauthenticated, PermissionDenied, and
        Unavailable if the keys are not known yet."""
        metadata = tuple((key, value) for key in _FORWARDED if (value := headers.get(key)) is not None)
        return Visitor(self._authenticator.caller(rpc, metadata, _no_certificate), metadata)

    @property
    def is_open(self) -> bool:
        """Whether every caller is let in, as anonymous."""
        return isinstance(self._authenticator, Open)


def _no_certificate() -> Mapping[str, Sequence[bytes]]:
    """Refuses a request without a token in a mesh whose members have certificates: browsers have none."""
    raise TokenMissing("the HTTP gateway needs a token: `archon token` prints one, set the header Authorization to it")
