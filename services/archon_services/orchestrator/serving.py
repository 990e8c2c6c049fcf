"""The server of an orchestrator and its services."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from archon.api.agent.v1 import agent_service_pb2_grpc, attach_service_pb2_grpc
from archon.api.audit.v1 import audit_service_pb2_grpc
from archon.api.orchestrator.v1 import (
    hook_service_pb2_grpc,
    orchestrator_service_pb2_grpc,
    schedule_service_pb2_grpc,
)
from archon.api.tool.v1 import tool_service_pb2_grpc
from archon.security.authenticator import Authenticator
from archon.server import GrpcServer, Service
from archon_services.common.audit_service import AUDIT_SERVICE, AuditServicer
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.api.hook_deliveries import HookDeliveries
from archon_services.orchestrator.api.hook_servicer import HOOK_SERVICE, HookServicer
from archon_services.orchestrator.api.hooks import HookCommands
from archon_services.orchestrator.api.schedule_servicer import SCHEDULE_SERVICE, ScheduleServicer
from archon_services.orchestrator.api.scheduled_runs import ScheduledRuns
from archon_services.orchestrator.api.schedules import ScheduleCommands
from archon_services.orchestrator.api.servicer import SERVICE, OrchestratorServicer
from archon_services.orchestrator.attach import (
    AGENT_SERVICE,
    ATTACH_SERVICE,
    TOOL_SERVICE,
    AttachRelay,
    AttachServicer,
    RelayedAgentServicer,
    RelayedCalls,
    RelayedToolServicer,
)
from archon_services.orchestrator.audit import AuditRecord
from archon_services.orchestrator.hooks import DeliveryLog, HookStore, SecretSealer
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.schedules import ScheduleFiring, ScheduleStore
from archon_services.orchestrator.settings import OrchestratorSettings


def make_server(
    settings: OrchestratorSettings,
    services: Sequence[Service],
    roles: RegistryWatch,
    callers: Authenticator,
    stack: AsyncExitStack,
) -> tuple[GrpcServer, AttachRelay]:
    """Returns the server of these services and of attached agents, and the relay to the agents."""
    relay = AttachRelay(settings.registry)
    calls = RelayedCalls(relay, roles.find_instance)
    stack.push_async_callback(calls.close)
    served = [*services, *_attach(relay, calls)]
    server = GrpcServer(served, host=settings.host, port=settings.port, authenticator=callers)
    stack.push_async_callback(server.stop)
    stack.push_async_callback(relay.close)
    return server, relay


def orchestrator_service(commands: Commands, journal: Journal, runs: Runs) -> Service:
    """Returns the service of runs."""
    add = orchestrator_service_pb2_grpc.add_OrchestratorServiceServicer_to_server
    return Service(SERVICE, add, OrchestratorServicer(commands, journal, runs.watchers))


def audit_service(journal: Journal) -> Service:
    """Returns the service of the audit log in the journal."""
    add = audit_service_pb2_grpc.add_AuditServiceServicer_to_server
    return Service(AUDIT_SERVICE, add, AuditServicer(journal))


def schedule_service(
    runs: Runs, journal: Journal, clock: JournalClock, commands: Commands, callers: Authenticator
) -> tuple[ScheduleFiring, Service]:
    """Returns the service of schedules, and the loop that fires them, which is not started."""
    store = ScheduleStore(journal, clock.now)
    firing = ScheduleFiring(store, ScheduledRuns(commands, callers), lambda: runs.owner)
    audit = AuditRecord(journal, lambda: runs.owner, clock.now, runs.on_audit)
    add = schedule_service_pb2_grpc.add_ScheduleServiceServicer_to_server
    return firing, Service(SCHEDULE_SERVICE, add, ScheduleServicer(ScheduleCommands(store, audit)))


def hook_service(
    settings: OrchestratorSettings,
    runs: Runs,
    journal: Journal,
    clock: JournalClock,
    commands: Commands,
    callers: Authenticator,
) -> tuple[DeliveryLog, Service]:
    """Returns the service of hooks, and the log of their deliveries, which is not started."""
    store, secrets = HookStore(journal, clock.now), SecretSealer(Path(settings.hook_key))
    log = DeliveryLog(store)
    audit = AuditRecord(journal, lambda: runs.owner, clock.now, runs.on_audit)
    taken = HookDeliveries(store, secrets, log, commands, callers, clock.monotonic)
    add = hook_service_pb2_grpc.add_HookServiceServicer_to_server
    return log, Service(HOOK_SERVICE, add, HookServicer(HookCommands(store, secrets, audit), taken))


def _attach(relay: AttachRelay, calls: RelayedCalls) -> list[Service]:
    """The services for agents that cannot be dialled."""
    add_attach = attach_service_pb2_grpc.add_AttachServiceServicer_to_server
    add_agents = agent_service_pb2_grpc.add_AgentServiceServicer_to_server
    add_tools = tool_service_pb2_grpc.add_ToolServiceServicer_to_server
    return [
        Service(ATTACH_SERVICE, add_attach, AttachServicer(relay)),
        Service(AGENT_SERVICE, add_agents, RelayedAgentServicer(relay, calls)),
        Service(TOOL_SERVICE, add_tools, RelayedToolServicer(calls)),
    ]
