"""MeshGateway: the handler of a role whose tasks are runs of another mesh."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from archon import context, mesh_id
from archon.agent import Answer, TaskContext, TaskRejected
from archon.background import BackgroundLoop
from archon.errors import ArchonError
from archon.failure_kinds import RetryAdvice
from archon.federation.content import answer_of, failure_of
from archon.federation.follow import FollowedRun
from archon.federation.lineage import crossing, lineage_of
from archon.federation.orphans import INTERVAL, OrphanSearch
from archon.federation.other_mesh import Address, OtherMesh, RunChoice
from archon.federation.reach import reach
from archon.federation.submission import Submission, request_id_of, run_of
from archon.security.credentials import Credentials, NoCredentials
from archon.types.task_state import TaskState

_log = logging.getLogger(__name__)

PATIENCE: Final = 60.0
"""Seconds for which an attempt waits for another mesh that does not answer."""

CANCEL_PATIENCE: Final = 60.0
"""Seconds for which the cancellation of a run is tried."""

MAX_CANCELLING: Final = 1_000
"""Runs whose cancellation is tried at a time; further ones end with their own time limit."""

CLOSE_TIMEOUT: Final = 5.0


class MeshGateway:
    """Hands each task to the mesh `name`, whose orchestrator is at `address` (host:port, or a function that returns
    it).

    A task is one run there, which a later attempt at the task, on any instance, finds again and goes on with. Deadline,
    budget, trace and questions to people cross, and so does a cancellation; a process that stops or is lost cancels
    nothing. `choice` says how the other mesh executes the runs. `metadata` are patterns of the keys that cross.
    `mesh_id` is the id of this mesh, by default ARCHON_MESH. With the address of its `orchestrator`, runs are found and
    cancelled whose task ended while no gateway could cancel them. Calls to the other mesh present
    `credentials` (archon.security.credentials.Tokens), by default nothing; with a token that may act for others the
    identities of people who answer cross. `patience` is how many seconds an attempt waits for the
    other mesh while that does not answer.

    Use it as an async context manager around its server, in a single event loop.
    """

    def __init__(
        self,
        name: str,
        address: str | Address,
        *,
        choice: RunChoice | None = None,
        metadata: Sequence[str] = ("*",),
        mesh_id: str = "",
        orchestrator: str | Address = "",
        credentials: Credentials | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.name = name
        self.mesh_id = mesh_id or _own_id()
        self.credentials = credentials or NoCredentials()
        """Presented to the other mesh: never the credentials of this mesh."""

        self._other = OtherMesh(name, address if callable(address) else lambda: address, self.credentials)
        self._own = OtherMesh("this", orchestrator if callable(orchestrator) else lambda: orchestrator)
        self._search = OrphanSearch(self._own, self._other, self.mesh_id) if orchestrator else None
        self._searching: BackgroundLoop | None = None
        self._choice = choice or RunChoice()
        self._metadata = tuple(metadata)
        self._patience = patience
        self._background: set[asyncio.Task[Any]] = set()

    async def handle(self, task: TaskContext) -> Answer:
        """Executes a task. Raises the failure of its run, Unavailable if the other mesh does not answer, DelegationLoop
        if that waits for this task already, and DelegationTooDeep."""
        if task.plan_request is not None or task.exact:
            raise TaskRejected(f"the mesh {self.name} makes no plans, and executes no tools, for other meshes")
        # The attempt has a timer of its own, which questions to people stop.
        context.enter(replace(context.current(), deadline=None))
        return await self._execute(task)

    async def _execute(self, task: TaskContext) -> Answer:
        starting = asyncio.create_task(self._start(task), name=f"submit-{task.task_id}")
        try:
            run_id = await asyncio.shield(starting)
            run = await FollowedRun(task, self._other, run_id, self._patience).ended()
        except asyncio.CancelledError:
            if task.is_over:
                self._cancel_later(starting)
            else:  # the run goes on, and so will the next attempt
                starting.cancel()
                self._keep(starting)
            raise
        except ArchonError as error:
            if error.retry is RetryAdvice.NEVER and not (starting.done() and starting.exception()):
                self._cancel_later(starting)  # no later attempt goes on with it
            raise
        if run.state is not TaskState.COMPLETED:
            raise failure_of(run, self.name)
        return answer_of(run, self.name)

    async def __aenter__(self) -> MeshGateway:
        if self._search is not None:
            self._searching = BackgroundLoop("gateway: orphans", self._search.repeat, backoff_max=INTERVAL)
            self._searching.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits a moment for cancellations that are under way, and closes the connections. Idempotent."""
        searching, self._searching = self._searching, None
        if searching is not None:
            await searching.close()
        if self._background:
            _, late = await asyncio.wait(self._background, timeout=CLOSE_TIMEOUT)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self._other.close()
        await self._own.close()

    async def _start(self, task: TaskContext) -> str:
        lineage = lineage_of(task, self.mesh_id, await self._other.id())
        metadata = {**crossing(task.metadata, self._metadata), **lineage}
        submission = Submission(self._choice, metadata, request_id_of(task, self.mesh_id))
        left = task.remaining()
        return await run_of(
            task, self._other, submission, min(self._patience, self._patience if left is None else left)
        )

    def _cancel_later(self, starting: asyncio.Task[str]) -> None:
        """Cancels the run of a task that nothing needs any more, once its submission has an answer."""
        if len(self._background) >= MAX_CANCELLING:
            _log.warning("a run of the mesh %s is left to its time limit: too many are being cancelled", self.name)
            return
        self._keep(asyncio.create_task(self._cancel(starting), name="cancel the run of a task"))

    async def _cancel(self, starting: asyncio.Task[str]) -> None:
        try:
            async with asyncio.timeout(CANCEL_PATIENCE):
                run_id = await starting
                await reach(
                    self._other, lambda client: client.cancel(run_id, "its task was cancelled"), CANCEL_PATIENCE
                )
        except (ArchonError, TimeoutError) as error:
            _log.info("a run of the mesh %s was not cancelled: %s", self.name, str(error) or "no answer in time")

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # of a submission that no attempt needs any more


def _own_id() -> str:
    """The id of this mesh; without one, a name that no other mesh has, as long as the process has its host and its
    registry: loops are found by it, too."""
    own = os.environ.get(mesh_id.VARIABLE, "")
    return own or f"{socket.gethostname()}/{os.environ.get('ARCHON_REGISTRY', '')}"
