"""The policy: who may call which RPC."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import archon.api.agent.v1.agent_service_pb2 as agent_service
import archon.api.agent.v1.attach_service_pb2 as attach_service
import archon.api.audit.v1.audit_service_pb2 as audit
import archon.api.memory.v1.long_term_memory_service_pb2 as long_term
import archon.api.memory.v1.memory_graph_service_pb2 as graph
import archon.api.memory.v1.working_memory_service_pb2 as working
import archon.api.orchestrator.v1.hook_service_pb2 as hooks
import archon.api.orchestrator.v1.orchestrator_service_pb2 as orchestrator
import archon.api.orchestrator.v1.schedule_service_pb2 as schedules
import archon.api.registry.v1.registry_service_pb2 as registry
import archon.api.tool.v1.tool_service_pb2 as tool
from archon.errors import PermissionDenied
from archon.principal import Kind, Principal
from archon.security.policy import POLICY, check_allowed, check_role

ROOT = Path(__file__).parents[4]

MODULES = (
    agent_service,
    attach_service,
    audit,
    long_term,
    graph,
    working,
    orchestrator,
    schedules,
    hooks,
    registry,
    tool,
)


def rpcs() -> set[str]:
    return {
        f"/{service.full_name}/{method.name}"
        for module in MODULES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def test_every_rpc_of_the_contract_has_a_row_and_no_other() -> None:
    assert set(POLICY) == rpcs()
    services = {file.stem for file in (ROOT / "protos").rglob("*_service.proto")}
    assert services == {module.DESCRIPTOR.name.rpartition("/")[2].removesuffix(".proto") for module in MODULES}


def test_an_unknown_rpc_is_refused_to_everybody() -> None:
    for kind in Kind:
        with pytest.raises(PermissionDenied, match="kinds that may: none"):
            check_allowed("/archon.api.orchestrator.v1.OrchestratorService/DropEverything", Principal(kind, "x"))


def test_readers_change_nothing() -> None:
    reads = ("Get", "List", "Watch", "Search", "Pull", "Resolve", "Describe")
    for method, kinds in POLICY.items():
        if not method.rpartition("/")[2].startswith(reads):
            assert not kinds & {Kind.VIEWER, Kind.AUDITOR}, method


def test_agents_neither_submit_nor_answer_nor_change_the_graph() -> None:
    for method, kinds in POLICY.items():
        if "OrchestratorService" in method or method.endswith(("PinEdges", "ClearItems", "RunTask", "/Session")):
            assert Kind.AGENT not in kinds, method


def test_the_message_of_a_refusal_names_caller_rpc_and_kinds() -> None:
    with pytest.raises(PermissionDenied) as caught:
        check_allowed("/archon.api.orchestrator.v1.OrchestratorService/SubmitRun", Principal(Kind.VIEWER, "vi"))
    assert str(caught.value) == (
        "vi is of kind viewer and may not call SubmitRun; kinds that may: admin, operator, service"
    )
    assert caught.value.metadata["kind"] == "viewer"


@pytest.mark.parametrize(("kind", "role"), list(product(Kind, ("reviewer", "writer"))))
def test_only_agents_are_held_to_the_roles_of_their_credentials(kind: Kind, role: str) -> None:
    principal = Principal(kind, "x", roles=frozenset({"reviewer"}))
    if kind is Kind.AGENT and role == "writer":
        with pytest.raises(PermissionDenied, match="may not register the role 'writer'; roles of its credentials: rev"):
            check_role(principal, role)
    else:
        check_role(principal, role)
    check_role(None, role)
