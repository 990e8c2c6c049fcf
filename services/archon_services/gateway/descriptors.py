"""The RPCs that the gateway forwards, from the descriptors of the stubs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from archon.api.audit.v1 import audit_service_pb2
from archon.api.memory.v1 import long_term_memory_service_pb2, memory_graph_service_pb2, working_memory_service_pb2
from archon.api.orchestrator.v1 import hook_service_pb2, orchestrator_service_pb2, schedule_service_pb2
from archon.api.registry.v1 import registry_service_pb2

FILES = (
    orchestrator_service_pb2,
    schedule_service_pb2,
    hook_service_pb2,
    audit_service_pb2,
    registry_service_pb2,
    memory_graph_service_pb2,
    working_memory_service_pb2,
    long_term_memory_service_pb2,
)


@dataclass(frozen=True, slots=True)
class Rpc:
    """One RPC of the contract. `path` is its full name, such as `/archon.api...Service/GetRun`."""

    service: str
    name: str
    path: str
    request: type[Any]
    response: type[Any]
    client_streaming: bool
    server_streaming: bool


def all_rpcs() -> Iterator[Rpc]:
    """Yields each RPC of the services that the gateway can reach."""
    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                yield _rpc(service.full_name, method)


def _rpc(service: str, method: MethodDescriptor) -> Rpc:
    return Rpc(
        service,
        method.name,
        f"/{service}/{method.name}",
        GetMessageClass(method.input_type),
        GetMessageClass(method.output_type),
        method.client_streaming,
        method.server_streaming,
    )
