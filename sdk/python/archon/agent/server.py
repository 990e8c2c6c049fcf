"""AgentServer: one role as a full member of the mesh.

agent = AgentServer("translator", description="Translates to French")

@agent.task
async def translate(task):
    return await my_model(task.text)

agent.run()
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from archon.agent.session import FEATURES, PROTOCOL, AgentSession, close_silent, draining, no_capacity, replaced
from archon.agent.settings import AgentSettings
from archon.agent.table import Handler, TaskTable
from archon.api.agent.v1 import agent_service_pb2, agent_service_pb2_grpc, session_pb2
from archon.channel import MAX_CHECKED_BYTES
from archon.errors import ArchonError, FailedPrecondition
from archon.interceptors import raw_messages
from archon.registry import Capability, DependsOn, Registration, RegistryClient, Tool
from archon.registry.convert import registration_to_proto
from archon.server import GrpcServer, Service, signalled

_log = logging.getLogger(__name__)

SERVICE: Final = "archon.api.agent.v1.AgentService"
SWEEP_INTERVAL: Final = 5.0
DRAIN_GRACE: Final = 30.0
ACK_GRACE: Final = 5.0

H = TypeVar("H", bound=Handler)


class AgentServer:
    """Serves `role` on host:port and keeps it registered. What isn't given here comes from the environment
    (`AgentSettings`), so that the same file runs on a laptop and in a cluster.

    `max_tasks` is how many tasks run at once, over all orchestrators together.
    """

    def __init__(
        self,
        role: str,
        *,
        version: str = "0.1.0",
        description: str = "",
        capabilities: Sequence[Capability] = (),
        tools: Sequence[Tool] = (),
        depends_on: Sequence[DependsOn | str] = (),
        tags: dict[str, str] | None = None,
        max_tasks: int = 8,
        handler: Handler | None = None,
        settings: AgentSettings | None = None,
    ) -> None:
        self.settings = settings or AgentSettings.from_environment()
        chosen = depends_on if self.settings.depends_on is None else self.settings.depends_on
        self.role = role
        self.instance_id = f"{role}-{uuid.uuid4().hex[:12]}"
        self.registration = Registration(
            role=role,
            instance_id=self.instance_id,
            version=version,
            description=description,
            capabilities=tuple(capabilities),
            tools=tuple(tools),
            depends_on=tuple(one if isinstance(one, DependsOn) else DependsOn(one) for one in chosen),
            tags=dict(tags or {}),
            max_tasks=self.settings.max_tasks or max_tasks,
            ttl=self.settings.ttl,
        )
        self._handler = handler
        self._tasks = TaskTable(self.registration.max_tasks, MAX_CHECKED_BYTES)
        self._sessions: list[AgentSession] = []
        self._draining = False
        self._server: GrpcServer | None = None
        self._registry: RegistryClient | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._stopped: asyncio.Task[None] | None = None

    def task(self, handler: H) -> H:
        """Decorator: `handler(task)` gets a TaskContext and returns a string or an Answer. It may be a coroutine or,
        for work that blocks, a plain function, which then runs on a thread."""
        self._handler = handler
        return handler

    @property
    def handler(self) -> Handler:
        """Raises FailedPrecondition where none was given."""
        if self._handler is None:
            raise FailedPrecondition(f"agent {self.role} has no handler: decorate one with @agent.task")
        return self._handler

    @property
    def address(self) -> str:
        """host:port as bound; empty before `start`."""
        return self._server.address if self._server is not None else ""

    async def start(self) -> str:
        """Serves, then registers (where a registry is configured). Returns the address."""
        _ = self.handler
        service = Service(SERVICE, agent_service_pb2_grpc.add_AgentServiceServicer_to_server, _Servicer(self))
        self._server = GrpcServer([service], host=self.settings.host, port=self.settings.port)
        address = await self._server.start()
        self._sweeper = asyncio.create_task(self._sweep(), name="agent-sweep")
        self.registration = replace(self.registration, address=self.settings.advertised(self._server.port))
        if self.settings.registry:
            self._registry = RegistryClient(self.settings.registry)
            await self._registry.register(self.registration)
        return address

    async def stop(self, grace: float = DRAIN_GRACE) -> None:
        """Drains: leaves the registry, takes nothing new, finishes what is under way within `grace` seconds, waits a
        little for results to be acked, then ends. Idempotent."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop(grace), name="agent-stop")
        await asyncio.shield(self._stopped)

    async def _stop(self, grace: float) -> None:
        self._draining = True
        if self._server is not None:
            await self._server.unhealthy()
        if self._registry is not None:
            await self._registry.close()
        for session in self._sessions:
            session.queue.put(session_pb2.AgentFrame(drain=session_pb2.Drain(reason="the agent is stopping")))
            session.credit(0)
        try:
            async with asyncio.timeout(grace if self._tasks.working else ACK_GRACE):
                while self._tasks.working:
                    await self._tasks.wait_changed()
            async with asyncio.timeout(ACK_GRACE):
                while self._sessions and any(True for _ in self._tasks):
                    await self._tasks.wait_changed()
        except TimeoutError:
            _log.warning("stopping with %d tasks under way", self._tasks.working)
        await self._tasks.stop()
        for session in list(self._sessions):
            session.end()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        if self._server is not None:
            await self._server.stop(1.0)

    def run(self) -> int:
        """Serves until SIGTERM or SIGINT, then drains. Returns the process's exit code."""
        logging.basicConfig(
            level=self.settings.log_level.upper(), format=f"%(asctime)s %(levelname)-7s {self.role} %(message)s"
        )

        async def main() -> int:
            stop = signalled()
            try:
                address = await self.start()
            except ArchonError as error:
                _log.error("%s", error)
                return 1
            self.settings.announce(address)
            _log.info("%s serves on %s", self.instance_id, address)
            await stop.wait()
            await self.stop()
            return 0

        return asyncio.run(main())

    def session_opened(self, session: AgentSession) -> int:
        """A stream was opened: an older one of the same orchestrator ends, the capacity is split anew. Returns the
        new stream's share."""
        for older in list(self._sessions):
            if older.orchestrator_id == session.orchestrator_id:
                self._sessions.remove(older)
                older.end(replaced(session.orchestrator_id))
        self._sessions.append(session)
        share = self._share()
        for other in self._sessions:
            if other is not session:
                other.credit(share)
        return share

    def session_closed(self, session: AgentSession) -> None:
        """A stream ended; its tasks go on and wait for another to take them up."""
        for held in self._tasks:
            if held.session is session:
                held.session = None
        if session in self._sessions:
            self._sessions.remove(session)
            for other in self._sessions:
                other.credit(self._share())
        self._tasks.changed()

    def _share(self) -> int:
        if self._draining or self._tasks.parked_full:
            return 0
        return max(1, self._tasks.capacity // max(1, len(self._sessions)))

    def no_room(self, session: AgentSession) -> ArchonError | None:
        """Why a further task can't be taken, if it can't."""
        if self._draining:
            return draining()
        if self._tasks.working >= self._tasks.capacity + len(self._sessions) - 1 or self._tasks.parked_full:
            return no_capacity(0.2)
        return None

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_INTERVAL)
            self._tasks.expire()
            close_silent(self._sessions)
            if not self._sessions:
                continue
            for held in self._tasks:
                if held.session is None and not held.working:
                    held.session = self._sessions[0]  # a result that nobody asked for: any orchestrator will judge it
                    held.send_again(0)
                    held.session = None


class _Servicer(agent_service_pb2_grpc.AgentServiceServicer):
    """The wire of an agent. RunTask and Deliver are not served."""

    def __init__(self, agent: AgentServer) -> None:
        self._agent = agent

    def RunTask(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    def Deliver(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def Describe(  # type: ignore[override]
        self, request: agent_service_pb2.DescribeRequest, context: Any
    ) -> agent_service_pb2.DescribeResponse:
        return agent_service_pb2.DescribeResponse(
            registration=registration_to_proto(self._agent.registration),
            protocols=[PROTOCOL],
            features=FEATURES,
            input_modes=["text/plain"],
            output_modes=["text/plain"],
        )

    @raw_messages
    async def Session(  # type: ignore[override]
        self, request_iterator: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[agent_service_pb2.SessionResponse]:
        session = AgentSession(self._agent, self._agent._tasks)
        reader = asyncio.create_task(session.read(request_iterator), name="session-read")
        try:
            while frames := await session.queue.batch():
                yield agent_service_pb2.SessionResponse(frames=frames)
            if session.error is not None:
                raise session.error
        finally:
            reader.cancel()
            self._agent.session_closed(session)
            await asyncio.wait([reader], timeout=1.0)
