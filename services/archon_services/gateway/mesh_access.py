"""Connections of a room to the mesh: one that speaks for the caller, one that speaks for the gateway itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from typing import Final

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.client import CALL_TIMEOUT, Client
from archon.errors import Unauthenticated
from archon.memory.working import WorkingMemoryClient
from archon.registry import RegistryClient
from archon.security.authenticator import Caller, own_key_file
from archon.security.certificates import own_folder
from archon.security.credentials import Metadata
from archon.types.run import Run
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.room import Gateway

ORCHESTRATOR: Final = "archon.api.orchestrator.v1.OrchestratorService"

_TRACE: Final = ("traceparent", "tracestate")

READ: Final = f"/{ORCHESTRATOR}/GetRun"
"""The RPC that every caller of such a room may call, or is refused at once."""

_visitor: ContextVar[Visitor | None] = ContextVar("gateway_visitor", default=None)


class CallerCredentials:
    """Presents the credentials of the caller that is being served, and nothing else."""

    def metadata(self) -> Metadata:
        """Returns the metadata of the caller; empty without credentials."""
        return _metadata()


def _metadata() -> Metadata:
    visitor = _visitor.get()
    if visitor is None:
        return ()
    return tuple(pair for pair in visitor.metadata if pair[0] not in _TRACE)


class MeshAccess:
    """Connections to the services of the settings. An async context manager that closes them.

    Calls of `runs` present the token of the caller, so that policy, tenant, quotas and audit are the mesh's. The other
    connections have the credentials of the gateway itself, in the tenant of `archon.context.current()`. Without a
    memory service `values` is None; `name` is the writer of values.
    """

    def __init__(self, gateway: Gateway, name: str) -> None:
        settings = gateway.settings
        self._visitors = gateway.visitors
        self._stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(gateway.upstream.forwarding(ORCHESTRATOR))
        self.runs = Client(settings.orchestrator, credentials=CallerCredentials())
        self.own_runs = Client(settings.orchestrator)
        self.directory = RegistryClient(settings.registry)
        self.values = WorkingMemoryClient(settings.memory, name) if settings.memory else None

    @property
    def needs_token(self) -> bool:
        """Whether the mesh lets in no caller without a token."""
        return own_key_file() is not None or own_folder() is not None

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

    def allowed(self, headers: Mapping[str, str], rpc: str) -> None:
        """Raises PermissionDenied if the policy does not let the caller with these headers call an RPC."""
        self._visitors.of(headers, rpc)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Counts a stream of the caller, or a call that waits for a task, for the duration of the block. Raises
        TooManyRequests if the caller has too many."""
        with self._visitors.stream(self.visitor):
            yield

    async def runs_page(self, *, size: int, token: str, session_id: str) -> tuple[list[Run], str]:
        """Returns up to `size` runs that the caller may see, newest first, without tasks and answers; and the token of
        the next page, empty on the last one. Raises InvalidArgument for a token of another list."""
        request = pb.ListRunsRequest(page_size=size, page_token=token, session_id=session_id)
        page = await self._stub.ListRuns(request, timeout=CALL_TIMEOUT, metadata=_metadata())
        return [Run(run) for run in page.runs], page.next_page_token

    async def __aenter__(self) -> MeshAccess:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:
            for close in (self.runs.close, self.own_runs.close, self.directory.close):
                stack.push_async_callback(close)
            if self.values is not None:
                stack.push_async_callback(self.values.close)
