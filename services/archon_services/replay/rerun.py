"""Runs a recorded run again, in a mesh of this process that is reachable from this machine alone."""

from __future__ import annotations

import asyncio
import json
import tempfile
import uuid
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from archon.api.agent.v1 import agent_service_pb2_grpc
from archon.api.common.v1 import common_pb2, plan_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc, run_pb2
from archon.api.registry.v1 import registry_pb2
from archon.channel import connect
from archon.client import Client
from archon.errors import DeadlineExceeded, FailedPrecondition, NotFound, Unavailable
from archon.memory import MemoryGraphClient
from archon.registry import Registration, RegistryClient
from archon.registry.convert import registration_from_proto
from archon.security.authenticator import Open
from archon.server import GrpcServer, Service
from archon.types import RunRecord
from archon.wire import policy_from_proto, text_of
from archon_mesh.core.people import InterceptionRule, TimeoutPolicy
from archon_mesh.engine import inputs as inp
from archon_services.memory.app import memory_app
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.convert.people import breakpoint_to_proto, rule_from_proto
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from archon_services.replay.comparison import Comparison, compare
from archon_services.replay.conductor import Conductor, Played
from archon_services.replay.player import MAX_TASKS, Player
from archon_services.replay.recorded_run import Recording
from archon_services.replay.script import Script, first_plan, plan_json_of, script_of

AGENT_SERVICE: Final = "archon.api.agent.v1.AgentService"
STARTED_WITHIN: Final = 15.0
"""Seconds until the mesh knows all roles of the run."""

ENDED_WITHIN: Final = 10.0
"""Seconds after the last cue until the run ends, while no live agent works."""

_SILENCE: Final = 60.0
_TTL: Final = 60.0
_RETRY: Final = 0.02
_CALL_TIMEOUT: Final = 30.0


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
        self._conductor = Conductor(recording, script, live=live, strict=strict)
        self._stack = AsyncExitStack()
        self._clients = AsyncExitStack()
        self._rules = ""

    async def start(self) -> None:
        """Starts the registry, the memory service and the played agents."""
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="archon-replay-")))
        self._rules = _write_rules(folder, self._recording.submitted)
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
        if self._live or self._recording.submitted.session_context:
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
            rules=self._rules,
            quotas="",
            audit_key="",
            webhook_url="",
            smtp="",
            max_failures=0,
        )
        async with orchestrator_app(settings) as address, Client(address) as client:
            self._conductor.run_id = await self._submit(address)
            events = await self._play(client, self._conductor.run_id)
        script = self._script
        result = compare(
            self._recording.events[: script.end],
            events,
            reused=script.reused,
            planner=script.planner,
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

    async def _submit(self, address: str) -> str:
        """Submits the run once the orchestrator knows its roles, and returns the id of the new run."""
        request = submission_of(self._recording)
        channel = connect(address)
        stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
        clock = asyncio.get_running_loop().time
        until = clock() + STARTED_WITHIN
        try:
            while True:
                try:
                    return str((await stub.SubmitRun(request, timeout=_CALL_TIMEOUT)).run.run_id)
                except (NotFound, Unavailable, FailedPrecondition) as error:
                    if clock() > until:
                        raise DeadlineExceeded(f"the run cannot be submitted again: {error.message}") from None
                    await asyncio.sleep(_RETRY)
        finally:
            await channel.close()

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
    script = script_of(recording, records)
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


def submission_of(recording: Recording) -> pb.SubmitRunRequest:
    """Returns the request that submits a run as the recorded one was."""
    source = recording.submitted
    request = pb.SubmitRunRequest(
        request_id=uuid.uuid4().hex,
        goal=source.goal,
        roles=source.roles,
        strategy=source.strategy,
        session_id=source.session_id,
        metadata=source.metadata,
        check_alignment=source.check_alignment,
    )
    submitted = recording.decisions[0].input if recording.decisions else None
    if isinstance(submitted, inp.Submit):
        request.breakpoints.extend(map(breakpoint_to_proto, submitted.breakpoints))
    if source.HasField("timeout"):
        request.timeout.CopyFrom(source.timeout)
    if source.HasField("budget"):
        request.budget.CopyFrom(source.budget)
    if source.strategy == run_pb2.STRATEGY_PLAN:
        del request.roles[:]
        request.roles.extend(target.role for target in source.plan_targets)
        if not source.without_planner:
            request.planner = source.roles[0]
        if (plan := first_plan(recording)) is not None:
            request.plan_json = _given_text(recording) if not source.parent_run_id else plan_json_of(plan)
    return request


def _given_text(recording: Recording) -> str:
    """The plan that the run was submitted with: it stands as the answer of its planner."""
    result = next(event.result for event in recording.events if event.HasField("result"))
    return text_of(result.output)


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


def _write_rules(folder: Path, source: run_pb2.Submitted) -> str:
    """Writes the rules of the run as a file of rules; returns its path, empty without rules."""
    if not source.rules:
        return ""
    rules = [_rule(rule_from_proto(rule)) for rule in source.rules]
    path = folder / "rules.yaml"
    path.write_text(json.dumps({"rules": rules}), encoding="utf-8")  # JSON is YAML
    return str(path)


def _rule(rule: InterceptionRule) -> dict[str, object]:
    """A rule as its file has it; anyone may answer."""
    from archon.failure_kinds import ErrorSeverity

    condition = rule.condition
    values: dict[str, object] = {
        "trigger": rule.trigger.name.lower(),
        "priority": rule.priority,
        "name": rule.name,
        "timeout": rule.timeout,
        "on_timeout": "default" if rule.on_timeout is TimeoutPolicy.DEFAULT else "abort",
        "default": rule.default,
        "message": rule.message,
        "role": condition.role,
        "step": condition.step,
        "confidence_below": condition.confidence_below,
        "cost_above": condition.cost_above,
        "severity_at_least": (
            ErrorSeverity(condition.severity_at_least).name.lower() if condition.severity_at_least else None
        ),
    }
    return {name: value for name, value in values.items() if value not in (None, "", 0)}
