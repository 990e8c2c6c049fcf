"""The parts of the room that its handlers share."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Final

from archon.errors import ArchonError
from archon.types.run import Run
from archon_services.gateway.agents import AgentDirectory, MeshAgent
from archon_services.gateway.mcp.follow_run import followed
from archon_services.gateway.mcp.lent_tools import LentTools
from archon_services.gateway.mcp.secret_page import SecretPages
from archon_services.gateway.mesh_access import MeshAccess

_log = logging.getLogger(__name__)

MAX_CANCELLING: Final = 1_000
"""Runs that are being cancelled because their callers are gone."""


class RoomParts:
    """An async context manager that ends calls in progress."""

    def __init__(self, access: MeshAccess, lent: LentTools, secrets: SecretPages) -> None:
        self.access, self.lent, self.addresses = access, lent, secrets
        self._agents = AgentDirectory(access.directory)
        self._cancelling: set[asyncio.Task[None]] = set()
        self.stopping = asyncio.Event()
        """Set once the gateway stops: clients that are cut off then have cancelled nothing."""

    @property
    def identity(self) -> str:
        """The identity of the caller that is being served."""
        return self.access.visitor.caller.identity

    async def mesh_of_caller(self) -> MeshAgent:
        """Returns the mesh with the roles of the caller's tenant. Raises Unavailable."""
        mesh = await self._agents.find("", self.access.visitor.caller.tenant)
        assert mesh is not None
        return mesh

    def cancel_later(self, run_id: str) -> None:
        """Cancels the run of a call that the client has cancelled, in a task of its own."""
        if self.stopping.is_set() or len(self._cancelling) >= MAX_CANCELLING:
            return
        task = asyncio.create_task(self._cancel(run_id), name=f"cancel run {run_id}")
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _cancel(self, run_id: str) -> None:
        try:
            await self.access.runs.cancel(run_id, "cancelled by an MCP client")
        except ArchonError as error:
            _log.warning("run %s of a cancelled call goes on: %s", run_id, error, extra={"run_id": run_id})

    async def ended(self, run: Run, seconds: float) -> None:
        """Waits for the end of a run for some seconds."""
        asked = frozenset(each.input_id for each in run.questions)
        await followed(self.access.runs, run, self.identity, seconds, None, asked)

    async def __aenter__(self) -> RoomParts:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cancelling:
            await asyncio.wait(self._cancelling, timeout=2.0)
        for task in self._cancelling:
            task.cancel()
        await self.lent.close()
