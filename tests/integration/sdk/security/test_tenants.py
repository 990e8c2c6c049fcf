"""Two tenants of one mesh: what one has does not exist for the other, by whatever RPC it asks.

Each case calls an RPC about something that the tenant `acme` has. A caller of `blue` must not reach it; the same call
by a caller of `acme` must, which shows that the case is about something."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.message import Message

from archon import AgentServer, TaskContext, status
from archon.agent import AgentSettings
from archon.api.agent.v1 import agent_service_pb2 as agent
from archon.api.agent.v1 import attach_service_pb2, session_pb2
from archon.api.audit.v1 import audit_service_pb2 as audit
from archon.api.common.v1 import common_pb2 as common
from archon.api.memory.v1 import long_term_memory_service_pb2 as long_term
from archon.api.memory.v1 import memory_graph_service_pb2 as graph
from archon.api.memory.v1 import memory_pb2
from archon.api.memory.v1 import working_memory_service_pb2 as working
from archon.api.orchestrator.v1 import hook_service_pb2 as hooks
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as orchestrator
from archon.api.orchestrator.v1 import schedule_service_pb2 as schedules
from archon.api.registry.v1 import registry_pb2
from archon.api.registry.v1 import registry_service_pb2 as registry
from archon.api.tool.v1 import tool_service_pb2 as tool
from archon.client import Client
from archon.errors import (
    AlreadyExists,
    ArchonError,
    DeliveryUnverified,
    FailedPrecondition,
    NotFound,
    PermissionDenied,
    UnknownRole,
)
from archon.principal import Kind, Principal
from archon.registry import Tool
from archon.security.certificates import CertificateFolder
from archon.security.policy import POLICY
from archon.security.spiffe import SpiffeId
from archon.tools import SharedTool
from archon.types import Usage
from archon_services.local_mesh.authority import Authority
from archon_services.testing.in_process import InProcessMesh
from archon_services.testing.link import Link
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually

SECRET: Final = "plan of acme"
"""In everything that acme has."""

MESH: Final = "mesh-of-tests"
SERVICES: Final = Principal(Kind.SERVICE, "of-tests")

SCHEDULE: Final = "yearly"
"""The name of a schedule of acme."""

HOOK: Final = "pushed"
"""The name of a hook of acme."""

SCOPE: Final = "planning"
"""A session of acme, and the scope of its shared and working memory. Blue may have one of the same name."""

PATIENCE: Final = 5.0
SILENCE: Final = 0.3
"""Seconds in which a stream about nothing says nothing."""

_TIME: Final = re.compile(r"seconds|nanos|tasks:|use_count|last_use_time|revision|^  }$")

REQUEST_STREAMS: Final = {"KeepAlive", "Session", "Converse", "Attach"}


class WithTokens:
    """Members prove who they are by tokens."""

    def __init__(self, folder: Path) -> None:
        self._keys = TestKeys(folder)

    def environment(self, principal: Principal) -> dict[str, str]:
        return self._keys.environment(principal)

    def channel(self, address: str, peer: str, principal: Principal) -> tuple[Any, tuple[tuple[str, str], ...]]:
        """Returns a channel of a caller to a peer, and the metadata of its calls."""
        token = self._keys.token(principal, "agents" if ".agent." in peer else "services")
        return grpc.aio.insecure_channel(address), (("authorization", f"Bearer {token}"),)

    def client(self, address: str, principal: Principal) -> Client:
        return Client(address, credentials=self._keys.credentials(principal))


class WithCertificates:
    """Members prove who they are by certificates, over mutual TLS. All services of this process have the same one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority.create(MESH, now=_now())

    def _certificate(self, principal: Principal) -> Path:
        names = tuple(f"{name}.service.default.{MESH}" for name in ("orchestrator", "registry", "memory"))
        folder = self._folder / f"{principal.kind}-{principal.name}-{principal.tenant}"
        identity = SpiffeId(MESH, principal.tenant, principal.kind, principal.name)
        is_member = principal == SERVICES
        self._authority.issue(folder, identity, now=_now(), names=names if is_member else ())
        return folder

    def environment(self, principal: Principal) -> dict[str, str]:
        return {"ARCHON_TLS": str(self._certificate(principal))}

    def channel(self, address: str, peer: str, principal: Principal) -> tuple[Any, tuple[tuple[str, str], ...]]:
        """Returns a channel of a caller to a peer, and the metadata of its calls."""
        own = CertificateFolder(self._certificate(principal)).read()
        credentials = grpc.ssl_channel_credentials(own.authorities, own.key, own.chain)
        options = [("grpc.ssl_target_name_override", f"{peer}.{MESH}")]
        return grpc.aio.secure_channel(address, credentials, options=options), ()

    def client(self, address: str, principal: Principal) -> Client:
        return Client(address, certificate=CertificateFolder(self._certificate(principal)))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass
class World:
    """A mesh with tenants `acme` and `blue`, and the ids of acme's things."""

    mesh: InProcessMesh
    door: WithTokens | WithCertificates
    worker: AgentServer
    run_id: str = ""
    waiting_id: str = ""
    input_id: str = ""
    instance_id: str = ""
    entry_id: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that show something of acme's."""
        return SECRET, self.run_id, self.waiting_id, self.instance_id, self.entry_id

    def place(self, method: str) -> tuple[str, str]:
        """Returns the address that serves a method, and the name of who serves it."""
        service = method.split("/")[1]
        if service.endswith(".AttachService"):
            return self.mesh.orchestrator.address, "orchestrator.service.default"
        if ".agent." in service or ".tool." in service:
            return self.worker.address, "worker.agent.acme"
        if ".registry." in service:
            return self.mesh.registry.address, "registry.service.default"
        if ".memory." in service:
            return self.mesh.memory.address, "memory.service.default"
        return self.mesh.orchestrator.address, "orchestrator.service.default"

    def client(self, tenant: str) -> Client:
        return self.door.client(self.mesh.orchestrator.address, Principal(Kind.OPERATOR, "ann", tenant))


@dataclass(frozen=True)
class Outcome:
    """The answer to a call: its first message, or its error; neither if a stream said nothing."""

    request: str
    response: Message | None = None
    error: ArchonError | None = None

    def shows(self, world: World) -> bool:
        """Whether it shows something of acme's that the request does not name."""
        text = "" if self.response is None else text_format.MessageToString(self.response, as_utf8=True)
        return any(mark in text for mark in world.marks if mark not in self.request)

    @property
    def refused(self) -> bool:
        return isinstance(self.error, NotFound | PermissionDenied | AlreadyExists | DeliveryUnverified)


async def call(world: World, method: str, request: Message, tenant: str, kind: Kind | None = None) -> Outcome:
    """Calls a method as a caller of a tenant, of a kind that may call it: by default the first one of a few."""
    described = descriptor_pool.Default().FindMethodByName(method[1:].replace("/", "."))
    answer = message_factory.GetMessageClass(described.output_type)
    kinds = POLICY[method]
    kind = kind or next(each for each in (Kind.ADMIN, Kind.OPERATOR, Kind.AGENT, Kind.SERVICE) if each in kinds)
    roles = frozenset({"worker"}) if kind is Kind.AGENT else frozenset[str]()
    name = "worker" if kind is Kind.AGENT else f"someone-of-{tenant}"
    caller = Principal(kind, name, tenant, roles)
    channel, metadata = world.door.channel(*world.place(method), caller)
    asked = text_format.MessageToString(request, as_utf8=True)
    timeout = PATIENCE if tenant == "acme" else SILENCE
    try:
        async with channel:
            if method.rpartition("/")[2] in REQUEST_STREAMS:
                both: Any = channel.stream_stream(method)(timeout=PATIENCE, metadata=metadata)
                await both.write(request.SerializeToString())
                data = await both.read()
            elif described.server_streaming:
                stream: Any = channel.unary_stream(method)(
                    request.SerializeToString(), timeout=timeout, metadata=metadata
                )
                data = await stream.read()
            else:
                data = await channel.unary_unary(method)(
                    request.SerializeToString(), timeout=PATIENCE, metadata=metadata
                )
    except grpc.aio.AioRpcError as raised:
        error = status.from_rpc_error(raised)
        return Outcome(asked) if error.code == "DEADLINE_EXCEEDED" else Outcome(asked, error=error)
    return Outcome(asked, answer.FromString(data) if data is not grpc.aio.EOF else None)


Request = Callable[[World], Message]


def _submit() -> orchestrator.SubmitRunRequest:
    return orchestrator.SubmitRunRequest(goal=[common.Part(text="x")], roles=["worker"])


def _schedule() -> schedules.Schedule:
    times = schedules.ScheduleTimes(cron="0 0 1 1 *")
    return schedules.Schedule(name=SCHEDULE, times=times, run=_submit(), note="of someone", paused=True)


def _hook() -> hooks.Hook:
    return hooks.Hook(name=HOOK, run=_submit(), note="of someone")


READS: Final[dict[str, Request]] = {
    "orchestrator.v1.HookService/GetHook": lambda w: hooks.GetHookRequest(name=HOOK),
    "orchestrator.v1.HookService/ListHooks": lambda w: hooks.ListHooksRequest(),
    "orchestrator.v1.HookService/ListDeliveries": lambda w: hooks.ListDeliveriesRequest(name=HOOK),
    "orchestrator.v1.ScheduleService/GetSchedule": lambda w: schedules.GetScheduleRequest(name=SCHEDULE),
    "orchestrator.v1.ScheduleService/ListSchedules": lambda w: schedules.ListSchedulesRequest(),
    "orchestrator.v1.ScheduleService/ListFires": lambda w: schedules.ListFiresRequest(name=SCHEDULE),
    "orchestrator.v1.OrchestratorService/GetRun": lambda w: orchestrator.GetRunRequest(run_id=w.run_id),
    "orchestrator.v1.OrchestratorService/WatchRun": lambda w: orchestrator.WatchRunRequest(run_id=w.run_id),
    "orchestrator.v1.OrchestratorService/ListRuns": lambda w: orchestrator.ListRunsRequest(),
    "orchestrator.v1.OrchestratorService/ListRunRecords": lambda w: orchestrator.ListRunRecordsRequest(run_id=w.run_id),
    "orchestrator.v1.OrchestratorService/ListRunSteps": lambda w: orchestrator.ListRunStepsRequest(run_id=w.run_id),
    "audit.v1.AuditService/ListEntries": lambda w: audit.ListEntriesRequest(),
    "orchestrator.v1.OrchestratorService/ListQuestions": lambda w: orchestrator.ListQuestionsRequest(),
    "orchestrator.v1.OrchestratorService/ListInstanceMetrics": lambda w: orchestrator.ListInstanceMetricsRequest(),
    "orchestrator.v1.OrchestratorService/Converse": lambda w: orchestrator.ConverseRequest(
        correlation_id="1", watch=orchestrator.WatchRunRequest(run_id=w.run_id)
    ),
    "registry.v1.RegistryService/ResolveInstances": lambda w: registry.ResolveInstancesRequest(role="worker"),
    "registry.v1.RegistryService/ListInstances": lambda w: registry.ListInstancesRequest(leases=True),
    "registry.v1.RegistryService/Watch": lambda w: registry.WatchRequest(),
    "memory.v1.MemoryGraphService/PullItems": lambda w: graph.PullItemsRequest(scope=SCOPE, role="editor"),
    "memory.v1.MemoryGraphService/GetGraph": lambda w: graph.GetGraphRequest(scope=SCOPE),
    "memory.v1.MemoryGraphService/SearchItems": lambda w: graph.SearchItemsRequest(scope=SCOPE, query="plan"),
    "memory.v1.MemoryGraphService/WatchItems": lambda w: graph.WatchItemsRequest(scope=SCOPE),
    "memory.v1.WorkingMemoryService/GetValue": lambda w: working.GetValueRequest(scope=SCOPE, key="plan"),
    "memory.v1.WorkingMemoryService/ListValues": lambda w: working.ListValuesRequest(scope=SCOPE),
    "memory.v1.WorkingMemoryService/WatchValues": lambda w: working.WatchValuesRequest(scope=SCOPE),
    "memory.v1.LongTermMemoryService/SearchEntries": lambda w: long_term.SearchEntriesRequest(query=SECRET),
    "memory.v1.LongTermMemoryService/GetEntry": lambda w: long_term.GetEntryRequest(entry_id=w.entry_id),
    "memory.v1.LongTermMemoryService/ListEntries": lambda w: long_term.ListEntriesRequest(),
    "memory.v1.LongTermMemoryService/ListRecentEntries": lambda w: long_term.ListRecentEntriesRequest(),
    "agent.v1.AgentService/Describe": lambda w: agent.DescribeRequest(),
    "tool.v1.ToolService/ListTools": lambda w: tool.ListToolsRequest(),
}
"""Calls whose answer shows something of acme's."""

CHANGES: Final[dict[str, Request]] = {
    "orchestrator.v1.HookService/RotateHookSecret": lambda w: hooks.RotateHookSecretRequest(name=HOOK),
    "orchestrator.v1.HookService/UpdateHook": lambda w: hooks.UpdateHookRequest(hook=_hook()),
    "orchestrator.v1.HookService/PauseHook": lambda w: hooks.PauseHookRequest(name=HOOK),
    "orchestrator.v1.HookService/ResumeHook": lambda w: hooks.ResumeHookRequest(name=HOOK),
    "orchestrator.v1.HookService/DeleteHook": lambda w: hooks.DeleteHookRequest(name=HOOK),
    "orchestrator.v1.HookService/SignDelivery": lambda w: hooks.SignDeliveryRequest(name=HOOK),
    "orchestrator.v1.HookService/Deliver": lambda w: hooks.DeliverRequest(name=HOOK),
    "orchestrator.v1.ScheduleService/UpdateSchedule": lambda w: schedules.UpdateScheduleRequest(schedule=_schedule()),
    "orchestrator.v1.ScheduleService/PauseSchedule": lambda w: schedules.PauseScheduleRequest(name=SCHEDULE),
    "orchestrator.v1.ScheduleService/ResumeSchedule": lambda w: schedules.ResumeScheduleRequest(name=SCHEDULE),
    "orchestrator.v1.ScheduleService/TriggerSchedule": lambda w: schedules.TriggerScheduleRequest(name=SCHEDULE),
    "orchestrator.v1.ScheduleService/DeleteSchedule": lambda w: schedules.DeleteScheduleRequest(name=SCHEDULE),
    "orchestrator.v1.OrchestratorService/SubmitRun": lambda w: _submit(),
    "orchestrator.v1.OrchestratorService/PlanRun": lambda w: orchestrator.PlanRunRequest(submit=_submit()),
    "orchestrator.v1.OrchestratorService/PauseRun": lambda w: orchestrator.PauseRunRequest(run_id=w.waiting_id),
    "orchestrator.v1.OrchestratorService/ResumeRun": lambda w: orchestrator.ResumeRunRequest(run_id=w.waiting_id),
    "orchestrator.v1.OrchestratorService/SetBreakpoints": lambda w: orchestrator.SetBreakpointsRequest(
        run_id=w.waiting_id
    ),
    "orchestrator.v1.OrchestratorService/EditPlan": lambda w: orchestrator.EditPlanRequest(
        run_id=w.waiting_id, plan_json="{}"
    ),
    "orchestrator.v1.OrchestratorService/ForkRun": lambda w: orchestrator.ForkRunRequest(run_id=w.run_id),
    "orchestrator.v1.OrchestratorService/RateRun": lambda w: orchestrator.RateRunRequest(run_id=w.run_id, stars=1),
    "orchestrator.v1.OrchestratorService/MarkRun": lambda w: orchestrator.MarkRunRequest(run_id=w.run_id),
    "orchestrator.v1.OrchestratorService/Respond": lambda w: orchestrator.RespondRequest(
        run_id=w.waiting_id, input_id=w.input_id, parts=[common.Part(text="by someone")]
    ),
    "orchestrator.v1.OrchestratorService/CancelRun": lambda w: orchestrator.CancelRunRequest(run_id=w.waiting_id),
    "registry.v1.RegistryService/RegisterInstance": lambda w: registry.RegisterInstanceRequest(
        registration=registry_pb2.Registration(instance_id=w.instance_id, role="worker", address="127.0.0.1:7999")
    ),
    "agent.v1.AgentService/RunTask": lambda w: agent.RunTaskRequest(),
    "agent.v1.AgentService/Session": lambda w: agent.SessionRequest(
        frames=[session_pb2.OrchestratorFrame(open=session_pb2.Open(orchestrator_id="other"))]
    ),
    "agent.v1.AgentService/Deliver": lambda w: agent.DeliverRequest(),
    "tool.v1.ToolService/LeaseTool": lambda w: tool.LeaseToolRequest(tool_name="secret_tool"),
    "tool.v1.ToolService/ExecuteTool": lambda w: tool.ExecuteToolRequest(lease_id="any"),
    "tool.v1.ToolService/RevokeLease": lambda w: tool.RevokeLeaseRequest(lease_id="any"),
}
"""Calls that are refused to blue, because the thing does not exist for it, or belongs to another."""

OWN: Final[dict[str, Request]] = {
    "orchestrator.v1.HookService/CreateHook": lambda w: hooks.CreateHookRequest(hook=_hook()),
    "orchestrator.v1.ScheduleService/CreateSchedule": lambda w: schedules.CreateScheduleRequest(schedule=_schedule()),
    "orchestrator.v1.OrchestratorService/GetQuotas": lambda w: orchestrator.GetQuotasRequest(),
    "orchestrator.v1.OrchestratorService/ListLearnedVersions": lambda w: orchestrator.ListLearnedVersionsRequest(),
    "orchestrator.v1.OrchestratorService/DecideLearnedVersion": lambda w: orchestrator.DecideLearnedVersionRequest(
        version=1
    ),
    "orchestrator.v1.OrchestratorService/RevertLearnedVersion": lambda w: orchestrator.RevertLearnedVersionRequest(),
    "audit.v1.AuditService/ListLinks": lambda w: audit.ListLinksRequest(),
    "registry.v1.RegistryService/KeepAlive": lambda w: registry.KeepAliveRequest(instance_ids=[w.instance_id]),
    "registry.v1.RegistryService/DeregisterInstance": lambda w: registry.DeregisterInstanceRequest(
        instance_id=w.instance_id
    ),
    "registry.v1.RegistryService/PinEdges": lambda w: registry.PinEdgesRequest(
        edges=[common.Edge(upstream="editor", downstream="worker")]
    ),
    "registry.v1.RegistryService/UnpinEdges": lambda w: registry.UnpinEdgesRequest(
        edges=[common.Edge(upstream="worker", downstream="editor")]
    ),
    "registry.v1.RegistryService/GetGraph": lambda w: registry.GetGraphRequest(),
    "memory.v1.MemoryGraphService/PublishItems": lambda w: graph.PublishItemsRequest(
        scope=SCOPE, items=[memory_pb2.PublishItem(role="worker", content="of blue")]
    ),
    "memory.v1.MemoryGraphService/ClearItems": lambda w: graph.ClearItemsRequest(scope=SCOPE),
    "memory.v1.WorkingMemoryService/SetValue": lambda w: working.SetValueRequest(
        scope=SCOPE, key="plan", value_json='"of blue"'
    ),
    "memory.v1.WorkingMemoryService/DeleteValue": lambda w: working.DeleteValueRequest(scope=SCOPE, key="plan"),
    "memory.v1.LongTermMemoryService/StoreEntry": lambda w: long_term.StoreEntryRequest(content="of blue"),
    "memory.v1.LongTermMemoryService/RateEntry": lambda w: long_term.RateEntryRequest(entry_id=w.entry_id),
    "memory.v1.LongTermMemoryService/UpdateEntry": lambda w: long_term.UpdateEntryRequest(
        entry_id=w.entry_id, archived=True
    ),
    "memory.v1.LongTermMemoryService/DeleteEntry": lambda w: long_term.DeleteEntryRequest(entry_id=w.entry_id),
    "memory.v1.LongTermMemoryService/ForgetEntries": lambda w: long_term.ForgetEntriesRequest(session=SCOPE),
    "memory.v1.LongTermMemoryService/RestoreEntries": lambda w: long_term.RestoreEntriesRequest(
        entries=[memory_pb2.LongTermEntry(entry_id=w.entry_id, content="of blue")]
    ),
    "memory.v1.LongTermMemoryService/GetStats": lambda w: long_term.GetStatsRequest(),
    "agent.v1.AttachService/Attach": lambda w: _attachment(w.instance_id),
}
"""Calls that concern blue's own things, whatever they are about: those of acme stay as they are."""


def _attachment(instance_id: str) -> attach_service_pb2.AttachRequest:
    """Returns the first message of an agent that attaches as an instance of the role `worker`."""
    registration = registry_pb2.Registration(instance_id=instance_id, role="worker", version="1.0.0")
    ready = session_pb2.Ready(instance_id=instance_id, role="worker", registration=registration)
    return attach_service_pb2.AttachRequest(frames=[session_pb2.AgentFrame(ready=ready)])


@pytest.fixture(params=[WithTokens, WithCertificates], ids=["tokens", "certificates"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    door = request.param(tmp_path)

    def present(principal: Principal = SERVICES) -> None:
        for name, value in door.environment(principal).items():
            monkeypatch.setenv(name, value)

    present()
    mesh = InProcessMesh(tmp_path)
    mesh.memory.settings |= {"long_term": "sqlite", "embedder": "offline"}
    async with mesh:
        worker = AgentServer(
            "worker",
            settings=mesh.agent_settings(),
            description=SECRET,
            shared_tools=[SharedTool(Tool("secret_tool", SECRET, "{}"), _secret_tool)],
        )

        @worker.task
        async def work(task: TaskContext) -> str:
            if task.text == "ask":
                return await task.ask(SECRET)
            task.record_model_call("model", {"prompt": SECRET}, {}, started=1.0, seconds=0.1, usage=Usage())
            return SECRET

        present(Principal(Kind.AGENT, "worker", "acme", frozenset({"worker"})))
        async with worker:
            present()
            world = World(mesh, door, worker, instance_id=worker.registration.instance_id)
            await _fill(world)
            yield world
            await worker.stop(0.0)  # it waits for a person


async def _secret_tool(arguments: object, call: object) -> str:
    return SECRET


async def _hook_of(client: Client, world: World) -> None:
    """Adds a hook, and a delivery to it."""
    await client.hooks.create(HOOK, "work", scheme="github", note=SECRET, run={"roles": ["worker"]})
    _, headers = await client.hooks.sign(HOOK, b"{}")
    named = headers | {"x-github-event": SECRET}
    delivery = hooks.DeliverRequest(
        name=HOOK, body=b"{}", headers=[hooks.DeliveryHeader(name=name, value=value) for name, value in named.items()]
    )
    await call(world, _full("orchestrator.v1.HookService/Deliver"), delivery, "acme")

    async def listed() -> bool:
        return [each.state async for each in client.hooks.deliveries(HOOK)] == ["accepted"]

    await eventually(listed)


async def _fill(world: World) -> None:
    """Gives acme a run that has ended, one that waits for a person, an edge, and entries in each memory."""
    edge = common.Edge(upstream="worker", downstream="editor")
    await call(world, _full("registry.v1.RegistryService/PinEdges"), registry.PinEdgesRequest(edges=[edge]), "acme")
    async with world.client("acme") as client:
        await client.schedules.create(
            SCHEDULE, "work", cron="0 0 1 1 *", note=SECRET, paused=True, run={"roles": ["worker"]}
        )
        await client.schedules.trigger(SCHEDULE, request_id=SECRET)
        await _hook_of(client, world)

        async def fired() -> bool:
            return [fire.state async for fire in client.schedules.fires(SCHEDULE)] == ["completed"]

        await eventually(fired)
        run = await client.submit("work", roles=["worker"], session_id=SCOPE)
        world.run_id = run.run_id
        await run.result(10)
        waiting = await client.submit("ask", roles=["worker"])
        world.waiting_id = waiting.run_id

        async def asked() -> bool:
            questions = await client.list_questions()
            world.input_id = questions[0].input_id if questions else ""
            return bool(questions)

        await eventually(asked)
    value = working.SetValueRequest(scope=SCOPE, key="plan", value_json=json.dumps(SECRET))
    await call(world, _full("memory.v1.WorkingMemoryService/SetValue"), value, "acme")
    entry = long_term.StoreEntryRequest(content=SECRET, metadata={"session": SCOPE})
    stored = await call(world, _full("memory.v1.LongTermMemoryService/StoreEntry"), entry, "acme")
    assert isinstance(stored.response, long_term.StoreEntryResponse)
    world.entry_id = stored.response.entry.entry_id

    async def published() -> bool:
        method = "memory.v1.MemoryGraphService/PullItems"
        return (await call(world, _full(method), READS[method](world), "acme")).shows(world)

    await eventually(published)


def _full(method: str) -> str:
    return f"/archon.api.{method}"


def test_every_rpc_has_a_case() -> None:
    assert {_full(method) for method in (READS | CHANGES | OWN)} == set(POLICY)


async def test_no_rpc_reaches_anything_of_another_tenant(world: World) -> None:
    before = {method: (await call(world, _full(method), make(world), "acme")) for method, make in READS.items()}
    assert [method for method, outcome in before.items() if not outcome.shows(world)] == [], "cases about nothing"
    limit = asyncio.Semaphore(16)

    async def case(method: str, make: Request, kind: Kind) -> tuple[tuple[str, Kind], Outcome]:
        async with limit:
            return (method, kind), await call(world, _full(method), make(world), "blue", kind)

    by_blue: dict[tuple[str, Kind], Outcome] = {}
    for group in (READS | CHANGES, OWN):  # an edge of its own gives blue roles of the same names
        cases = [case(method, make, kind) for method, make in group.items() for kind in sorted(POLICY[_full(method)])]
        by_blue |= dict(await asyncio.gather(*cases))
    assert [method for method, outcome in by_blue.items() if outcome.shows(world)] == []
    refusals = [(case, outcome) for case, outcome in by_blue.items() if case[0] in CHANGES]
    assert [(case, outcome) for case, outcome in refusals if not outcome.refused] == []
    assert [method for method, outcome in by_blue.items() if "acme" in str(outcome.error)] == []
    after = {method: (await call(world, _full(method), make(world), "acme")) for method, make in READS.items()}
    assert {method: _lasting(outcome) for method, outcome in after.items()} == {
        method: _lasting(outcome) for method, outcome in before.items()
    }
    own = {method: await call(world, _full(method), make(world), "acme") for method, make in CHANGES.items()}
    assert [method for method, outcome in own.items() if isinstance(outcome.error, PermissionDenied)] == []


def _lasting(outcome: Outcome) -> str:
    """Returns the part of an answer that two readings have in common, if nothing of acme's has changed: neither
    times, nor how often acme has read it, nor the registry's revision, which all tenants share."""
    text = text_format.MessageToString(outcome.response) if outcome.response is not None else ""
    return "\n".join(line for line in text.split("\n") if not _TIME.search(line))


async def test_two_tenants_have_roles_of_the_same_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tenant's runs go to its own instances, and its answers to its own shared memory."""

    def present(principal: Principal) -> None:
        for name, value in world.door.environment(principal).items():
            monkeypatch.setenv(name, value)

    present(Principal(Kind.AGENT, "worker", "blue", frozenset({"worker"})))
    async with AgentServer("worker", handler=lambda task: "of blue", settings=world.mesh.agent_settings()):
        present(SERVICES)
        async with world.client("blue") as blue, world.client("acme") as acme:
            for client, expected in ((blue, "of blue"), (acme, SECRET), (blue, "of blue")):
                run = await client.submit("work", roles=["worker"], session_id=SCOPE)
                assert [answer.text for answer in (await run.result(10)).answers] == [expected]
            with pytest.raises(FailedPrecondition, match="no pipeline"):
                await blue.submit("work")  # the edge to `editor` is acme's


async def _is_attaching() -> bool:
    return any(task.get_name() == "attach" for task in asyncio.all_tasks())


async def test_an_attached_agent_belongs_to_the_tenant_of_its_credentials(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.door.environment(Principal(Kind.AGENT, "clerk", "blue", frozenset({"clerk"}))).items():
        monkeypatch.setenv(name, value)
    settings = AgentSettings(attach=world.mesh.orchestrator.address)
    with pytest.raises(PermissionDenied, match="may not register the role 'worker'"):
        await AgentServer("worker", handler=lambda task: "done", settings=settings).start()
    link = Link(int(world.mesh.orchestrator.address.rpartition(":")[2]))
    clerk = AgentServer("clerk", handler=lambda task: "of blue", settings=AgentSettings(attach=link.listen()))
    attaching = asyncio.create_task(clerk.start())
    # Once it has its credentials, the orchestrator, which is in this process, needs others.
    await eventually(_is_attaching)
    for name, value in world.door.environment(SERVICES).items():
        monkeypatch.setenv(name, value)
    async with link, AsyncExitStack() as stack:
        await attaching
        stack.push_async_callback(clerk.stop)
        async with world.client("blue") as blue, world.client("acme") as acme:
            run = await blue.submit("work", roles=["clerk"])
            assert [answer.text for answer in (await run.result(10)).answers] == ["of blue"]
            with pytest.raises(UnknownRole):
                await acme.submit("work", roles=["clerk"])
        listing = registry.ListInstancesRequest(role="clerk")
        listed = await call(world, _full("registry.v1.RegistryService/ListInstances"), listing, "blue")
        assert isinstance(listed.response, registry.ListInstancesResponse)
        assert [(each.tenant, each.identity) for each in listed.response.instances] == [("blue", "agent:clerk")]


async def test_an_edge_of_one_tenant_closes_no_cycle_of_another(world: World) -> None:
    reverse = registry.PinEdgesRequest(edges=[common.Edge(upstream="editor", downstream="worker")])
    method = _full("registry.v1.RegistryService/PinEdges")
    own = await call(world, method, reverse, "acme")
    assert own.error is not None
    assert own.error.reason == "CYCLE"
    assert own.error.metadata["cycle"] == "editor -> worker -> editor"
    other = await call(world, method, reverse, "blue")
    assert isinstance(other.response, registry.PinEdgesResponse)
    assert list(other.response.graph.roles) == ["editor", "worker"]


async def test_only_services_of_the_mesh_watch_all_tenants(world: World) -> None:
    method, request = _full("registry.v1.RegistryService/Watch"), registry.WatchRequest(all_tenants=True)
    refused = await call(world, method, request, "blue")
    assert isinstance(refused.error, PermissionDenied)
    own = await call(world, method, request, "acme")
    assert isinstance(own.error, PermissionDenied)
