"""The other mesh of a gateway: its address, its id, its roles, and how it is asked to execute a run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from archon import mesh_id
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.channel import connect
from archon.client import Client
from archon.errors import ArchonError, FailedPrecondition, Unavailable
from archon.plain_text import cut
from archon.registry import RegistryClient
from archon.security.credentials import Credentials

Address = Callable[[], str]
"""Returns host:port of an orchestrator. Raises an ArchonError while it is unknown."""

PROBE_TIMEOUT: Final = 5.0
"""Seconds of a call that asks for the id of a mesh, or for its roles."""

MAX_EARLIER: Final = 8
"""Earlier addresses of a mesh whose connections are kept."""

_NO_MESH: Final = "-"
"""An id that no mesh has."""

MAX_DESCRIPTION: Final = 1_000
"""Characters of the description of a role that is made of the roles of a mesh."""


@dataclass(frozen=True, slots=True)
class RunChoice:
    """How the other mesh executes the runs: strategy, roles and planner, as in `Client.submit`. Without a `strategy`
    the other mesh chooses it, among `roles` if there are any, by the text of each goal."""

    strategy: str = ""
    roles: Sequence[str] = ()
    planner: str = ""


class OtherMesh:
    """The connection to the orchestrator of another mesh, made anew if the address of that has changed. Its calls
    present `credentials`, by default the ones for the own mesh."""

    def __init__(self, name: str, address: Address, credentials: Credentials | None = None) -> None:
        self.name = name
        self._credentials = credentials
        self._address = address
        self._target = ""
        self._client: Client | None = None
        self._ids: dict[str, str] = {}
        self._earlier: deque[Client] = deque()
        """Clients of earlier addresses: calls of other tasks may still be under way."""
        self._closing: asyncio.Task[None] | None = None

    def client(self) -> Client:
        """Returns a client of the orchestrator at its present address. Raises Unavailable while that is unknown."""
        target = self.target()
        if self._client is None or target != self._target:
            if self._client is not None:
                self._earlier.append(self._client)
            if len(self._earlier) > MAX_EARLIER and (self._closing is None or self._closing.done()):
                self._closing = asyncio.create_task(self._close_down_to(MAX_EARLIER), name="close earlier clients")
            self._client, self._target = Client(target, credentials=self._credentials), target
        return self._client

    def target(self) -> str:
        """Returns the present address, host:port. Raises Unavailable while that is unknown."""
        try:
            return self._address()
        except ArchonError as error:
            raise Unavailable(f"the address of the mesh {self.name} is unknown: {error}") from error

    async def id(self) -> str:
        """Returns the id of the mesh; empty if it has none, or cannot be reached now."""
        try:
            target = self.target()
            if target not in self._ids:
                self._ids = {target: await mesh_id_of(target, self._credentials)}
            return self._ids[target]
        except ArchonError:
            return ""

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        if self._client is not None:
            self._earlier.append(self._client)
            self._client = None
        if self._closing is not None:
            await self._closing
        await self._close_down_to(0)

    async def _close_down_to(self, count: int) -> None:
        while len(self._earlier) > count:
            await self._earlier.popleft().close()


async def mesh_id_of(target: str, credentials: Credentials | None = None) -> str:
    """Returns the id of the mesh of an orchestrator at host:port; empty if it has none. A member of a mesh with an id
    refuses the members of other meshes, and says its own id. Raises Unavailable and DeadlineExceeded."""
    channel = connect(target, credentials=credentials)
    stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
    try:
        await stub.GetRun(pb.GetRunRequest(run_id=_NO_MESH), timeout=PROBE_TIMEOUT, metadata=((mesh_id.KEY, _NO_MESH),))
    except FailedPrecondition as error:
        return error.metadata.get("mesh", "")
    except Unavailable:
        raise
    except ArchonError:
        return ""
    finally:
        await channel.close()
    return ""


async def description_of(
    name: str, registry: str, roles: Sequence[str] = (), credentials: Credentials | None = None
) -> str:
    """Returns a description of a mesh by the roles of its registry at host:port, of all or of `roles`; without them if
    the registry cannot be reached or is empty, that is unknown."""
    text = f"Hands a task to the mesh {name}, which has agents of its own."
    if not registry:
        return text
    client = RegistryClient(registry, credentials=credentials)
    try:
        instances = await client.list_instances(timeout=PROBE_TIMEOUT)
    except ArchonError:
        return text
    finally:
        await client.close()
    known = {
        each.role: each.description for each in instances if not each.planner and (not roles or each.role in roles)
    }
    if not known:
        return text
    listed = "; ".join(f"{role}: {about}" if about else role for role, about in sorted(known.items()))
    return cut(f"{text} Its roles are {listed}", MAX_DESCRIPTION)
