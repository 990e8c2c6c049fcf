"""Connections of a room to the mesh: one that speaks for the caller, one that speaks for the gateway itself."""

from __future__ import annotations

from contextlib import AsyncExitStack

from typing_extensions import override

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.client import Client
from archon.context import current
from archon.memory.working import WorkingMemoryClient
from archon.registry import RegistryClient
from archon.run_control import CALL_TIMEOUT
from archon.security.authenticator import own_key_file
from archon.security.certificates import own_folder
from archon.types.run import Run
from archon_services.gateway.callers import ORCHESTRATOR, CallerCredentials, Callers
from archon_services.gateway.room import Gateway
from archon_services.gateway.watches.run_client import Check, FollowingClient


def _itself() -> tuple[str, Check]:
    """Follows runs on behalf of the gateway itself, which has no credentials to check."""
    return current().tenant, lambda: None


class MeshAccess(Callers):
    """Connections to the services of the settings. An async context manager that closes them.

    Connections other than `runs` have the credentials of the gateway itself, in the tenant of
    `archon.context.current()`. Without a memory service `values` is None; `name` is the writer of values.
    """

    def __init__(self, gateway: Gateway, name: str) -> None:
        super().__init__(gateway)
        settings = gateway.settings
        self._stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(gateway.upstream.forwarding(ORCHESTRATOR))
        self.own_runs: Client = FollowingClient(settings.orchestrator, gateway.run_watches, _itself)
        self.directory = RegistryClient(settings.registry)
        self.values = WorkingMemoryClient(settings.memory, name) if settings.memory else None

    @property
    def needs_token(self) -> bool:
        """Whether the mesh lets in no caller without a token."""
        return own_key_file() is not None or own_folder() is not None

    async def runs_page(self, *, size: int, token: str, session_id: str) -> tuple[list[Run], str]:
        """Returns up to `size` runs that the caller may see, newest first, without tasks and answers; and the token of
        the next page, empty on the last one. Raises InvalidArgument for a token of another list."""
        request = pb.ListRunsRequest(page_size=size, page_token=token, session_id=session_id)
        metadata = CallerCredentials().metadata()
        page = await self._stub.ListRuns(request, timeout=CALL_TIMEOUT, metadata=metadata)
        return [Run(run) for run in page.runs], page.next_page_token

    @override
    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:
            for close in (self.runs.close, self.own_runs.close, self.directory.close):
                stack.push_async_callback(close)
            if self.values is not None:
                stack.push_async_callback(self.values.close)
