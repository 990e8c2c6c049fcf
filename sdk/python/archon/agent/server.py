"""AgentServer: one role as a full member of the mesh.

agent = AgentServer("translator", description="Translates to French")

@agent.task
async def translate(task):
    return await my_model(task.text)

agent.run()
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Final, TypeVar

from archon.agent.agent_sessions import AgentSessions
from archon.agent.attachment import Attachment
from archon.agent.attempt import Handler
from archon.agent.bids import OnBid, bid_handler
from archon.agent.direct_inbox import DirectInbox, OnDirect
from archon.agent.message_handler import OnMessage, with_messages
from archon.agent.reachability import unreached
from archon.agent.relayed_calls import RelayedCalls
from archon.agent.servicer import SERVICE, AgentServicer
from archon.agent.settings import DRAIN_GRACE, AgentSettings
from archon.agent.shared import SharedConnection
from archon.agent.tool_health import ToolHealth
from archon.agent.typed_handler import typed_handler
from archon.api.agent.v1 import agent_service_pb2_grpc
from archon.api.tool.v1 import tool_service_pb2_grpc
from archon.background import BackgroundLoop
from archon.errors import ArchonError, DeadlineExceeded, FailedPrecondition, InvalidArgument
from archon.frames import BREAKPOINTS, FEATURES
from archon.identifiers import capability_fault, role_fault, version_fault
from archon.output import OutputType
from archon.registry import Capability, DependsOn, Profile, Registration, RegistrationHandle, RegistryClient, Tool
from archon.security.authenticator import agent_authenticator
from archon.server import GrpcServer, Service, announce, run_loop, signalled, withdraw
from archon.telemetry import export, logs, metrics, metrics_export
from archon.telemetry.final_export import stop_exports
from archon.telemetry.metrics import Labels
from archon.tools import SharedTool, SharedTools
from archon.tools.owner.advertising import Advertising, Registered, with_shared
from archon.tools.owner.servicer import SERVICE as TOOL_SERVICE
from archon.tools.owner.servicer import ToolServicer
from archon.tools.owner.tool_owner import ToolOwner

_log = logging.getLogger(__name__)

ACK_GRACE: Final = 5.0

ATTACH_TIMEOUT: Final = 10.0
"""Seconds that the start of an attached agent waits for an orchestrator."""


H = TypeVar("H", bound=Handler)
M = TypeVar("M", bound=OnMessage)
B = TypeVar("B", bound=OnBid)
D = TypeVar("D", bound=OnDirect)


def _check_names(registration: Registration) -> None:
    """Raises InvalidArgument for a name or version that every registry refuses."""
    faults = [
        *(role_fault(role) for role in (registration.role, *(edge.role for edge in registration.depends_on))),
        *(capability_fault(capability.id) for capability in registration.capabilities),
        version_fault(registration.version),
    ]
    if fault := next(filter(None, faults), ""):
        raise InvalidArgument(fault)


class AgentServer(AgentSessions):
    """Serves `role` on host:port and keeps it registered. Settings that are not arguments come from the environment
    (`AgentSettings`), so that the same file runs on a laptop and in a cluster.

    A task receives the answers of the roles in `depends_on`, with `all_ancestors` also of their ancestors. A task of
    a `coordinator` receives descriptions of the other roles (`TaskContext.delegation_targets`, `awareness`). A task
    of a `stateful` role receives the history of its session (`TaskContext.history`), and its answer extends it. A task
    of a `planner` receives a request for a plan (`TaskContext.plan_request`). `profile` has facts for callers and
    planners about the role. `output` is the type of its answers, if they are JSON: a pydantic model, another type
    that pydantic knows, or a JSON Schema; the handler then returns objects of it.
    `max_tasks` is how many tasks run at once, over all orchestrators together; `max_waiting` more may wait for their
    delegations. `tool_health` returns the tools' health for Describe. Other agents may lease the `shared_tools` and
    execute them here; the property of the same name revokes them. `holds_breakpoints` says that the handler asks a
    person before calls of tools and models at `TaskContext.breakpoints`, as the agent runtime does. Use `run` for a
    process of its own; `start` and `stop`, or `async with`, inside an event loop.

    Raises InvalidArgument if a name is one that registries refuse: of the role, a dependency or a capability, or the
    version; AlreadyExists if two shared tools have the same name.
    """

    def __init__(
        self,
        role: str,
        *,
        version: str = "0.1.0",
        description: str = "",
        capabilities: Sequence[Capability] = (),
        tools: Sequence[Tool] = (),
        shared_tools: Sequence[SharedTool] = (),
        depends_on: Sequence[DependsOn | str] = (),
        all_ancestors: bool = False,
        coordinator: bool = False,
        stateful: bool = False,
        planner: bool = False,
        profile: Profile | None = None,
        output: object = None,
        tags: dict[str, str] | None = None,
        max_tasks: int = 8,
        max_waiting: int = 100,
        handler: Handler | None = None,
        tool_health: Callable[[], Iterable[ToolHealth]] = tuple,
        holds_breakpoints: bool = False,
        settings: AgentSettings | None = None,
    ) -> None:
        self.settings = settings or AgentSettings.from_environment()
        chosen = depends_on if self.settings.depends_on is None else self.settings.depends_on
        self.role = role
        self._output = OutputType.of(output)
        self._shared = ToolOwner(shared_tools)
        self._advertising: Advertising | None = None
        self.instance_id = f"{role}-{uuid.uuid4().hex[:12]}"
        self.registration = Registration(
            role=role,
            instance_id=self.instance_id,
            version=version,
            description=description,
            capabilities=tuple(capabilities),
            tools=with_shared(tools, self._shared.advertised),
            depends_on=tuple(role if isinstance(role, DependsOn) else DependsOn(role) for role in chosen),
            tags=dict(tags or {}),
            all_ancestors=all_ancestors,
            coordinator=coordinator,
            stateful=stateful,
            planner=planner,
            profile=profile,
            output_schema_json=json.dumps(self._output.schema, ensure_ascii=False) if self._output else "",
            max_tasks=self.settings.max_tasks or max_tasks,
            ttl=self.settings.ttl,
        )
        _check_names(self.registration)
        self._on_message: tuple[OnMessage, tuple[str, ...]] | None = None
        self._on_bid: OnBid | None = None
        self._on_direct: OnDirect | None = None
        self.direct = self._direct_inbox()
        self._handler = self._typed(handler)
        self.tool_health = tool_health
        self.features: tuple[str, ...] = (*FEATURES, BREAKPOINTS) if holds_breakpoints else FEATURES
        super().__init__(self.registration.max_tasks, max_waiting)
        self._left_behind = 0
        self._server: GrpcServer | None = None
        self._registry: RegistryClient | None = None
        self._handle: RegistrationHandle | None = None
        self._attachment: Attachment | None = None
        self._reachability = BackgroundLoop("agent: reachability", self._attach_if_unreached)
        self._stopped: asyncio.Task[None] | None = None
        self._observed = ExitStack()

    def task(self, handler: H) -> H:
        """Decorator for the handler. `handler(task)` takes a TaskContext and returns a string, an Answer or a Question.
        It is a coroutine function or, for work that blocks, a plain function, which runs on a thread."""
        self._handler = self._typed(handler)
        return handler

    def on_message(self, *topics: str) -> Callable[[M], M]:
        """Decorator for a coroutine function that handles messages while the handler of a task works: messages for the
        task, its step and its role, and of the topics (`broadcast`, `type:TYPE`). `handler(message, task)`
        returns the answer, or None. An exception becomes an answer of type `error`. Such messages are not in
        `TaskContext.messages`."""

        def decorate(handler: M) -> M:
            self._on_message = handler, topics
            return handler

        return decorate

    def bid(self, handler: B) -> B:
        """Decorator for the function that bids for a step of a plan which others could execute too. `handler(task)`
        returns a Bid for `task.bid_request`, or None if the agent does not bid. Without one, the bid has the
        estimates of the profile."""
        self._on_bid = handler
        return handler

    def on_direct(self, handler: D) -> D:
        """Decorator for a coroutine function that handles messages that other instances deliver directly, outside of
        any run, one after the other. `handler(message)` returns nothing; `message.sender_id` is the role of the
        sender by its credentials, empty in a mesh without. Without a handler such messages are refused."""
        self._on_direct = handler
        return handler

    def _direct_inbox(self) -> DirectInbox:
        profile = self.registration.profile
        return DirectInbox(self.role, profile.message_types if profile is not None else {}, self._on_direct)

    @property
    def bid_handler(self) -> Handler:
        """The handler of tasks that ask for a bid."""
        return bid_handler(self._on_bid, self.registration.profile)

    def _typed(self, handler: Handler | None) -> Handler | None:
        return handler if handler is None or self._output is None else typed_handler(handler, self._output)

    @property
    def handler(self) -> Handler:
        """Raises FailedPrecondition if there is none."""
        if self._handler is None:
            raise FailedPrecondition(f"agent {self.role} has no handler: decorate one with @agent.task")
        return self._handler

    @property
    def shared_tools(self) -> SharedTools:
        """The tools that other agents may lease and execute here."""
        return SharedTools(self._shared)

    def _registered(self, registration: Registration) -> None:
        self.registration = registration

    @property
    def address(self) -> str:
        """host:port as bound; empty before `start`, and if the agent is attached."""
        return self._server.address if self._server is not None else ""

    async def reached(self, timeout: float = 10.0) -> None:
        """Waits until an orchestrator has opened a session: from then on it places tasks here. `timeout` is in seconds.
        Raises DeadlineExceeded."""
        try:
            async with asyncio.timeout(timeout):
                await self._reached.wait()
        except TimeoutError:
            raise DeadlineExceeded(f"no orchestrator has opened a session within {timeout:g} s") from None

    async def start(self) -> str:
        """Starts serving, then registers if a registry is configured; while that is unreachable, registration continues
        in the background. Returns the address. With `AgentSettings.attach` it attaches instead, and returns the address
        of the orchestrator. Raises FailedPrecondition without a handler, Unavailable if the port is taken, and the
        errors with which the registry refuses the registration, such as InvalidArgument."""
        if self._on_message is not None:
            self._handler = with_messages(self.handler, *self._on_message)
        _ = self.handler
        self.attempts.shared = SharedConnection(self.settings.memory)
        self.direct = self._direct_inbox()
        self.direct.start()
        if self.settings.attach:
            return await self._attach(self.settings.attach)
        authenticator, keys = agent_authenticator(self.settings.registry)
        self._server = GrpcServer(
            self._services(), host=self.settings.host, port=self.settings.port, authenticator=authenticator
        )
        address = await self._server.start()
        self._sweeper.start()
        self._observe()
        self.registration = replace(self.registration, address=self.settings.advertised(self._server.port))
        if self.settings.registry:
            try:
                self._registry = RegistryClient(self.settings.registry, on_registered=keys.tell)
                self._handle = await self._registry.register(self.registration)
            except BaseException:
                await self.stop(0.0)
                raise
            self._advertise(self._handle)
            if self.settings.orchestrator:
                self._reachability.start()
        else:
            _log.warning("no registry is configured (ARCHON_REGISTRY), so no orchestrator finds this agent")
        return address

    def _services(self) -> list[Service]:
        return [
            Service(SERVICE, agent_service_pb2_grpc.add_AgentServiceServicer_to_server, AgentServicer(self)),
            Service(TOOL_SERVICE, tool_service_pb2_grpc.add_ToolServiceServicer_to_server, ToolServicer(self._shared)),
        ]

    def _advertise(self, registered: Registered) -> None:
        """Keeps the registered tools as the shared ones are."""
        self._advertising = Advertising(self._shared, registered, self._registered)
        self._advertising.start()

    async def _attach(self, target: str) -> str:
        self._attachment = Attachment(self, target, RelayedCalls(self._services()))
        self._sweeper.start()
        self._observe()
        try:
            await self._attachment.start(ATTACH_TIMEOUT)
        except BaseException:
            await self.stop(0.0)
            raise
        self._advertise(self._attachment)
        return target

    async def _attach_if_unreached(self) -> None:
        target = self.settings.orchestrator
        if self._handle is None or self._registry is None:
            return
        await self._handle.registered.wait()
        if await unreached(target, self._reached.is_set):
            dialled = self.registration.address
            _log.warning("no orchestrator can dial %s at %s: attaching to %s", self.instance_id, dialled, target)
            if self._advertising is not None:
                await self._advertising.close()
            await self._registry.close()
            self.registration = replace(self.registration, address="")
            self._attachment = Attachment(self, target, RelayedCalls(self._services()))
            await self._attachment.start(ATTACH_TIMEOUT)
            self._advertise(self._attachment)

    def _observe(self) -> None:
        """Reports its tasks and slots as metrics, until it stops."""
        if (recorder := metrics.recorder()) is not None:
            self._observed.callback(recorder.observe(metrics.AGENT_TASKS, self._count_tasks))
            self._observed.callback(
                recorder.observe(metrics.AGENT_SLOTS, lambda: [((self.role,), self.attempts.capacity)])
            )

    async def stop(self, grace: float = DRAIN_GRACE) -> None:
        """Drains: deregisters, takes no new tasks, finishes tasks in progress within `grace` seconds, waits up to
        ACK_GRACE seconds for results to be acked, then ends. Tasks that take longer are given back: they are cancelled
        here and dispatched to other instances, which does not count as a loss. Idempotent."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop(grace), name="agent-stop")
        await asyncio.shield(self._stopped)

    async def __aenter__(self) -> AgentServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(DRAIN_GRACE if error is None else 0.0)

    async def _stop(self, grace: float) -> None:
        self._draining = True
        await self._reachability.close()
        if self._server is not None:
            await self._server.unhealthy()
        for session in self._sessions:
            session.drain()
        self._credit()
        self._shared.drain()
        if self._advertising is not None:
            await self._advertising.close()
        if self._registry is not None:
            await self._registry.close()
        try:
            async with asyncio.timeout(grace):
                while self.attempts.working:
                    await self.attempts.wait_changed()
                await self._shared.drained(grace)
        except TimeoutError:
            _log.warning("stopping with %d tasks in progress", self.attempts.working)
        try:
            async with asyncio.timeout(min(grace, ACK_GRACE)):
                while self._sessions and len(self.attempts) > self.attempts.working:
                    await self.attempts.wait_changed()
        except TimeoutError:
            _log.warning("stopping with results that were never acked")
        self._left_behind = await self._shared.stop() + await self.attempts.stop()
        await self.attempts.shared.close()
        if self._attachment is not None:
            await self._attachment.close()
        for session in self._streams:
            session.end()
        await self._sweeper.close()
        await self.direct.close()
        self._observed.close()
        if self._server is not None:
            await self._server.stop(1.0)

    def run(self) -> int:
        """Serves until SIGTERM or SIGINT, then drains. Returns the exit code of the process."""
        settings = self.settings
        logs.setup(self.role, settings.log_level, instance_id=self.instance_id, log_format=settings.log_format)
        try:
            return run_loop(self.serve())
        finally:
            logs.close()

    async def serve(self) -> int:
        """Like `run`, inside a running event loop. Returns the exit code of the process: 0 after a drain, 1 if the
        agent could not start. Exports spans and metrics if the environment asks for it."""
        export.start(self.role, self.instance_id)
        metrics_export.start(self.role, self.instance_id)
        try:
            return await self._serve()
        finally:
            await asyncio.to_thread(stop_exports)

    async def _serve(self) -> int:
        stop = signalled()
        try:
            address = await self.start()
        except ArchonError as error:
            _log.error("%s", error)
            return 1
        announce(self.settings.ready_file, address)
        _log.info("%s %s %s", self.instance_id, "is attached to" if self.settings.attach else "serves on", address)
        code = await self._wait_until_over(stop)
        await self.stop(self.settings.drain)
        withdraw(self.settings.ready_file)
        if self._left_behind:
            await asyncio.to_thread(stop_exports)
            logs.close()
            os._exit(1)  # the loop would wait forever for a handler that cannot be cancelled
        return code

    async def _wait_until_over(self, stop: asyncio.Event) -> int:
        """Waits until `stop` is set, or the registry, which was unreachable at the start, refuses the registration.
        Returns the exit code."""
        events = [stop] if self._handle is None else [stop, self._handle.invalid]
        waits = [asyncio.create_task(event.wait(), name="agent: wait for the end") for event in events]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if stop.is_set() or self._handle is None:
            return 0
        _log.error("%s", self._handle.error)
        return 1

    def _count_tasks(self) -> Iterable[tuple[Labels, float]]:
        """Yields the tasks by state; called by the thread that collects metrics."""
        attempts = list(self.attempts)
        working = [attempt for attempt in attempts if attempt.working]
        waiting = sum(attempt.waiting for attempt in working)
        yield (self.role, "running"), len(working) - waiting
        yield (self.role, "waiting"), waiting
        yield (self.role, "parked"), len(attempts) - len(working)
