"""Runs a recorded run again, in a mesh of this process that is reachable from this machine alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from archon.api.agent.v1 import agent_service_pb2_grpc
from archon.api.common.v1 import common_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.api.registry.v1 import registry_pb2
from archon.client import Client
from archon.errors import FailedPrecondition, NotFound
from archon.memory import MemoryGraphClient
from archon.registry import Registration, RegistryClient
from archon.registry.convert import registration_from_proto
from archon.security.authenticator import Open
from archon.server import GrpcServer, Service
from archon.types import RunRecord
from archon.wire import policy_from_proto, text_of
from archon_services.common import machine
from archon_services.memory.app import memory_app
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.convert import event_time
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.runs.clock.run_ids import RunIds
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from archon_services.replay.clock import ScriptedClock, ScriptedRunClock
from archon_services.replay.comparison import Comparison, compare
from archon_services.replay.conductor import Conductor, Played
from archon_services.replay.first_step import begun_now, first_step
from archon_services.replay.player import MAX_TASKS, Player
from archon_services.replay.recorded_run import Recording
from archon_services.replay.script import Script, script_of

AGENT_SERVICE: Final = "archon.api.agent.v1.AgentService"
STARTED_WITHIN: Final = 15.0
"""Seconds until the mesh knows all roles of the run."""

ENDED_WITHIN: Final = 10.0
"""Seconds after the last cue until the run ends, while no live agent works."""

_SILENCE: Final = 60.0
_TTL: Final = 60.0
_RETRY: Final = 0.02


@dataclass(frozen=True, slots=True)
class RunAgain:
    """A run that was run again. `stops` says why it was played up to event `end` only, empty if it was played whole."""

    run_id: str
    comparison: Comparison
    played: Played
    end: int
    stops: str = ""
    live: frozenset[str] = frozenset()
    events: Sequence[run_pb2.RunEvent] = field(default=(), repr=False)

    @property
    def same(self) -> bool:
        """Whether it went as recorded."""
        return self.comparison.same and not self.played.unknown and not self.played.contexts


class ReplayMesh:
    """The mesh that a recorded run is run again in. Live agents register at `registry`, before `run`; `memory` is the
    address of its memory service, empty if there is no live role."""

    def __init__(self, recording: Recording, script: Script, live: frozenset[str], *, strict: bool) -> None:
        self.registry = ""
        self.memory = ""
        self._recording, self._script, self._live = recording, script, live
        self._clock = None if live else ScriptedRunClock(event_time(recording.events[0]))
        self._conductor = Conductor(recording, script, live=live, strict=strict, clock=self._clock)
        self._stack = AsyncExitStack()
        self._clients = AsyncExitStack()

    async def start(self) -> None:
        """Starts the registry, the memory service and the played agents."""
        enter = self._stack.enter_async_context
        self.registry = await enter(registry_app(RegistrySettings(etcd="memory", port=0, audit_key="")))
        directory = await enter(RegistryClient(self.registry))
        instances: dict[str, str] = {}
        player = self._conductor.player = Player(instances, self._conductor)
        add = agent_service_pb2_grpc.add_AgentServiceServicer_to_server
        server = GrpcServer([Service(AGENT_SERVICE, add, player)], authenticator=Open())
        address = await server.start()
        self._stack.push_async_callback(server.stop, 0.0)
        for registration in registrations_of(self._recording):
            if registration.role in self._live:
                continue
            instances[registration.instance_id] = registration.role
            await directory.register(replace(registration, address=address, ttl=_TTL))
        if self._live:
            settings = MemorySettings(registry=self.registry, db=":memory:", port=0, long_term="off")
            self.memory = await enter(memory_app(settings))
            await self._remember()

    async def _remember(self) -> None:
        """Publishes the answers of the session's earlier runs, as far as the run was given them."""
        source = self._recording.submitted
        async with asyncio.timeout(STARTED_WITHIN), MemoryGraphClient(self.memory, scope=source.session_id) as client:
            for answer in source.session_context:
                item = answer.item
                policy = policy_from_proto(item.policy)
                await client.publish(item.ref.role, text_of(item.parts), dict(item.metadata), policy=policy)
            for reader in {reader for answer in source.session_context for reader in answer.readers}:
                pull = client.pull_for_indirect if reader in source.all_ancestors else client.pull_for
                wanted = {answer.item.ref.role for answer in source.session_context if reader in answer.readers}
                while wanted - {item.source_id for item in await pull(reader)}:  # noqa: ASYNC110 - another service's
                    await asyncio.sleep(_RETRY)

    async def register(self, registration: Registration) -> None:
        """Registers a live agent of another mesh, which is dialled at its address."""
        directory = await self._stack.enter_async_context(RegistryClient(self.registry))
        await directory.register(registration)

    async def run(self) -> RunAgain:
        """Runs the recorded run again, and compares the two."""
        settings = OrchestratorSettings(
            registry=self.registry,
            memory=self.memory,
            journal="memory",
            port=0,
            silence_limit=_SILENCE,
            rules="",
            quotas="",
            audit_key="",
            webhook_url="",
            smtp="",
            max_failures=0,
        )
        journal, clock = MemoryJournal(), self._clock
        self._conductor.run_id = run_id = RunIds().next()
        if clock is not None:
            journal.commit([first_step(self._recording, run_id)])
            scripted = ScriptedClock(journal, clock)
            gate, callers = self._conductor.gate, self._conductor.callers
            app = orchestrator_app(settings, journal=journal, clock=scripted, callers=callers, gate=gate)
        else:
            journal.commit([begun_now(self._recording, run_id, machine.wall_time())])
            app = orchestrator_app(settings, journal=journal, gate=self._conductor.gate)
        async with app as address, Client(address) as client:
            events = await self._play(client, run_id)
        script = self._script
        result = compare(
            self._recording.events[: script.end],
            events,
            live=self._live,
            complete=not script.stops,
        )
        played = self._conductor.played
        return RunAgain(self._conductor.run_id, result, played, script.end, script.stops, self._live, events)

    async def _play(self, client: Client, run_id: str) -> list[run_pb2.RunEvent]:
        events: list[run_pb2.RunEvent] = []

        async def watch() -> None:
            async with aclosing(client.watch(run_id, durable_only=True)) as watched:
                async for event in watched:
                    events.append(event.proto)
                    self._conductor.watched(event.proto)

        watching = asyncio.create_task(watch(), name="watch the run that is run again")
        try:
            await self._conductor.play(client)
            if self._script.stops and not self._conductor.ended:
                with suppress(FailedPrecondition):
                    await client.cancel(run_id, "the recording is played up to here")
            await asyncio.wait([watching], timeout=ENDED_WITHIN)
            if not watching.done():
                with suppress(FailedPrecondition):
                    await client.cancel(run_id, "the recording is over, and the run goes on")
                await asyncio.wait([watching], timeout=ENDED_WITHIN)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        if not watching.cancelled() and (error := watching.exception()) is not None:
            raise error
        return events

    async def close(self) -> None:
        """Stops the mesh. Idempotent."""
        await self._stack.aclose()


@asynccontextmanager
async def replay_mesh(
    recording: Recording, records: Iterable[RunRecord] = (), *, live: Collection[str] = (), strict: bool = False
) -> AsyncIterator[ReplayMesh]:
    """Starts the mesh for a recorded run with its recorded calls, and stops it. The roles in `live` are not played:
    register their agents in the block. With `strict` a played attempt fails that is sent something else than in the
    recording. Raises FailedPrecondition if the run cannot be run again, NotFound if it lacks a live role."""
    script = script_of(recording, records, timed=not live)
    roles = roles_of(recording)
    if unknown := sorted(set(live) - roles):
        known = ", ".join(sorted(roles))
        raise NotFound(f"the run has no role {', '.join(unknown)}; it has {known}")
    mesh = ReplayMesh(recording, script, frozenset(live), strict=strict)
    try:
        await mesh.start()
        yield mesh
    finally:
        await mesh.close()


async def run_again(recording: Recording, records: Iterable[RunRecord] = ()) -> RunAgain:
    """Runs a recorded run again, all of it from the file. Raises as `replay_mesh` does."""
    async with replay_mesh(recording, records) as mesh:
        return await mesh.run()


def roles_of(recording: Recording) -> set[str]:
    """Returns the roles that have an attempt in the recording."""
    return {event.dispatched.role for event in recording.events if event.HasField("dispatched")}


def registrations_of(recording: Recording) -> list[Registration]:
    """Returns the registrations of the run's roles, as far as the recording tells, without addresses."""
    roles = _Roles()
    roles.add_submitted(recording.submitted)
    for event in recording.events:
        roles.add_event(event)
    return [registration_from_proto(registration) for registration in roles.found.values()]


class _Roles:
    """The registrations of roles, as they become known."""

    def __init__(self) -> None:
        self.found: dict[str, registry_pb2.Registration] = {}

    def role(self, name: str) -> registry_pb2.Registration:
        """The registration of a role, which is added if it is not known."""
        if name not in self.found:
            self.found[name] = registry_pb2.Registration(role=name, max_tasks=MAX_TASKS)
        return self.found[name]

    def add_submitted(self, source: run_pb2.Submitted) -> None:
        """Adds the roles of a submission, with their properties."""
        for name in source.roles:
            self.role(name)
        for plan_target in source.plan_targets:
            self._add_plan_target(plan_target)
        for target in source.targets:
            self.role(target.role).description = target.description
            self.role(target.role).coordinator = target.coordinator
        for edge in source.edges:
            self.role(edge.upstream)
            self._depends(edge.downstream, edge.upstream, edge.policy)
        for answer in source.session_context:  # the roles that gave them need no instance
            for reader in answer.readers:
                self._depends(reader, answer.item.ref.role, answer.item.policy)
        for want in source.wants:
            self._offers(want.role, want.capability)
        for name in source.all_ancestors:
            self.role(name).all_ancestors = True
        if source.strategy == run_pb2.STRATEGY_PLAN and not source.without_planner:
            self.role(source.roles[0]).planner = True

    def add_event(self, event: run_pb2.RunEvent) -> None:
        """Adds the role that a task was dispatched or delegated to."""
        if event.HasField("dispatched"):
            self.role(event.dispatched.role)
            if event.dispatched.HasField("conversation_version"):
                self.role(event.dispatched.role).stateful = True
        elif event.HasField("delegated") and event.delegated.child_task_id:
            self.role(event.delegated.role)
            self._offers(event.delegated.role, event.delegated.capability)

    def _add_plan_target(self, target: plan_pb2.PlanTarget) -> None:
        role = self.role(target.role)
        role.description = target.description
        role.capabilities.extend(target.capabilities)
        role.tools.extend(target.tools)
        if target.HasField("profile"):
            role.profile.CopyFrom(target.profile)

    def _depends(self, name: str, upstream: str, policy: common_pb2.PropagationPolicy.ValueType) -> None:
        if upstream not in {each.role for each in self.role(name).depends_on}:
            self.role(name).depends_on.add(role=upstream, policy=policy)

    def _offers(self, name: str, capability: str) -> None:
        if capability and capability not in {each.id for each in self.role(name).capabilities}:
            self.role(name).capabilities.add(id=capability)
