"""The callers of a room, and calls to the orchestrator with their credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Self

from archon import context
from archon.client import Client
from archon.errors import Unauthenticated
from archon.security.authenticator import Caller
from archon.security.credentials import Metadata
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.room import Gateway
from archon_services.gateway.watches.run_client import Check, FollowingClient
from archon_services.gateway.watches.runs import WATCH_RUN

ORCHESTRATOR: Final = "archon.api.orchestrator.v1.OrchestratorService"

_TRACE: Final = ("traceparent", "tracestate")

READ: Final = f"/{ORCHESTRATOR}/GetRun"
"""The RPC that every caller of a room may call, or is refused at once."""

_visitor: ContextVar[Visitor | None] = ContextVar("gateway_caller", default=None)


class CallerCredentials:
    """Presents the credentials of the caller that is being served, and nothing else."""

    def metadata(self) -> Metadata:
        """Returns the metadata of the caller; empty without credentials."""
        visitor = _visitor.get()
        if visitor is None:
            return ()
        return tuple(pair for pair in visitor.metadata if pair[0] not in _TRACE)


class Callers:
    """Lets the callers of a room in. An async context manager that closes its connection.

    Calls of `runs` present the token of the caller, so that policy, tenant, quotas and audit are the mesh's.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._visitors = gateway.visitors
        self.runs: Client = FollowingClient(
            gateway.settings.orchestrator, gateway.run_watches, self._follower, credentials=CallerCredentials()
        )

    def enter(self, headers: Mapping[str, str]) -> Caller:
        """Makes the caller with these headers, in lower case, the one whose credentials `runs` presents in the current
        asyncio task. Raises Unauthenticated, PermissionDenied, and Unavailable if the keys are not known yet."""
        visitor = self._visitors.of(headers, READ)
        _visitor.set(visitor)
        parent, state = (headers.get(name, "") for name in _TRACE)
        context.enter(context.CallContext(traceparent=parent, tracestate=state))
        return visitor.caller

    @property
    def visitor(self) -> Visitor:
        """The caller that was let in. Raises Unauthenticated if there is none."""
        visitor = _visitor.get()
        if visitor is None:
            raise Unauthenticated("the call has no caller")
        return visitor

    def check(self) -> None:
        """Raises TokenExpired or TokenRevoked if the credentials of the caller are not valid any more."""
        self._visitors.check(self.visitor)

    def _follower(self) -> tuple[str, Check]:
        visitor = self.visitor
        self._visitors.require(visitor.caller, WATCH_RUN)
        return visitor.caller.tenant, lambda: self._visitors.check(visitor)

    def allowed(self, headers: Mapping[str, str], rpc: str) -> None:
        """Raises PermissionDenied if the policy does not let the caller with these headers call an RPC."""
        self._visitors.of(headers, rpc)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Counts a stream of the caller, or a call that waits for a run, for the duration of the block. Raises
        TooManyRequests if the caller has too many."""
        with self._visitors.stream(self.visitor):
            yield

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runs.close()
