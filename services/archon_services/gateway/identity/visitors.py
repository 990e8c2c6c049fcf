"""Who makes a request over HTTP, and the credentials with which its calls go on to the services of the mesh."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from archon.errors import PermissionDenied, TokenExpired, TokenMissing
from archon.security.authenticator import Authenticator, Caller
from archon.security.credentials import IDENTITY_KEY, TENANT_KEY, TOKEN_ONLY_KEY
from archon_services.common.rates import Rates
from archon_services.gateway.identity.sessions import Session, Sessions
from archon_services.gateway.limits.streams import Streams

_AUTHORIZATION: Final = "authorization"
_FORWARDED: Final = (IDENTITY_KEY, TENANT_KEY, "traceparent", "tracestate")
"""Headers that go on as metadata. A service decides whether a caller may act for others."""

MAX_LEFT: Final = 1_000
"""Sessions whose streams end because their browsers have logged out: the last ones."""

_MAX_HEADER: Final = 1_024
"""Characters of such a header."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who makes a request: the caller as the services of the mesh know it, and the metadata of calls on its behalf.
    `session` is the session of a browser, None of a caller with a token."""

    caller: Caller
    metadata: tuple[tuple[str, str], ...]
    session: Session | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Tenant and identity, by which limits count."""
        return self.caller.tenant, self.caller.identity


class Visitors:
    """Identifies visitors by the keys and the policy of the mesh, as its services do, and holds them to their limits:
    a bearer token decides, and without one the session of a browser."""

    def __init__(self, authenticator: Authenticator, sessions: Sessions, rates: Rates, streams: Streams) -> None:
        self._authenticator = authenticator
        self._rates, self._streams = rates, streams
        self._left: OrderedDict[Session, None] = OrderedDict()
        self.sessions = sessions

    def of(self, headers: Mapping[str, str], rpc: str) -> Visitor:
        """Returns who makes a request with these headers, as for a call of `rpc`, such as
        `/archon.api.orchestrator.v1.OrchestratorService/GetRun`. Raises Unauthenticated, PermissionDenied,
        TooManyRequests, and Unavailable if the keys are not known yet."""
        metadata = [(key, value[:_MAX_HEADER]) for key in _FORWARDED if (value := headers.get(key)) is not None]
        authorization = headers.get(_AUTHORIZATION)
        session = self.sessions.read(headers) if authorization is None else None
        if session is not None:
            authorization = f"Bearer {session.token}"
        if authorization is not None:
            metadata.append((_AUTHORIZATION, authorization))
        caller = self._authenticator.caller(rpc, metadata, _no_certificate)
        visitor = Visitor(caller, (*metadata, (TOKEN_ONLY_KEY, "1")), session)
        self.admit(visitor)
        return visitor

    def may(self, caller: Caller, rpc: str) -> bool:
        """Returns whether the policy of the mesh lets a caller call an RPC."""
        return caller.principal is None or self._authenticator.allows(caller.principal, rpc)

    def require(self, caller: Caller, rpc: str) -> None:
        """Raises PermissionDenied if the policy of the mesh does not let a caller call an RPC."""
        if not self.may(caller, rpc):
            raise PermissionDenied(
                f"{caller.identity} may not call {rpc.rpartition('/')[2]}",
                metadata={"method": rpc, "identity": caller.identity},
            )

    def admit(self, visitor: Visitor) -> None:
        """Counts a request of a visitor. Raises TooManyRequests."""
        self._rates.admit(visitor.key)

    def check(self, visitor: Visitor) -> None:
        """Raises TokenExpired or TokenRevoked if the credentials of a stream in progress are not valid any more, or its
        browser has logged out here."""
        if visitor.session in self._left:
            raise TokenExpired("the browser of this stream has logged out")
        if visitor.caller.principal is not None:
            self._authenticator.check(visitor.caller.principal)

    def leave(self, headers: Mapping[str, str]) -> None:
        """Ends the streams of the session of a browser, which its other tabs have open."""
        if (session := self.sessions.read(headers)) is not None:
            self._left[session] = None
            while len(self._left) > MAX_LEFT:
                self._left.popitem(last=False)

    def enter(self, session: Session) -> None:
        """Lets the streams of a session begin, also if a browser has left it before."""
        self._left.pop(session, None)

    @contextmanager
    def stream(self, visitor: Visitor) -> Iterator[None]:
        """Counts a stream of a visitor for the duration of the block. Raises TooManyRequests if it has too many."""
        with self._streams.opened(visitor.key):
            yield


def _no_certificate() -> Mapping[str, Sequence[bytes]]:
    """Refuses a request without a token in a mesh whose members have certificates: browsers have none."""
    raise TokenMissing("the HTTP gateway needs a token: `archon token` prints one, set the header Authorization to it")
