"""Reaches the instances of one tenant other than the default one: its roles have keys of their own in the pool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.engine.types import Requirement
from archon_services.common.tenants import role_key
from archon_services.orchestrator.ports import AttemptStatus, Slot, Transport


class TenantTransport:
    """Implements ports.Transport for the roles of `tenant` over a transport whose roles are keys of roles."""

    def __init__(self, pool: Transport, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant

    def of_tenant(self, tenant: str) -> Transport:
        return self._pool.of_tenant(tenant)

    def stateful(self, role: str) -> bool:
        return self._pool.stateful(self._key(role))

    def message_types(self, role: str) -> Mapping[str, str]:
        return self._pool.message_types(self._key(role))

    def reserve(self, want: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Slot | None:
        return self._pool.reserve(self._keyed(want), avoid, prefer)

    def expected_seconds(self, role: str) -> float:
        return self._pool.expected_seconds(self._key(role))

    def holds_breakpoints(self, instance_id: str) -> bool:
        return self._pool.holds_breakpoints(instance_id)

    def record_weight(self, role: str, instance_id: str) -> float:
        return self._pool.record_weight(self._key(role), instance_id)

    def release(self, instance_id: str) -> None:
        self._pool.release(instance_id)

    def when_free(self, want: Requirement, run_id: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._pool.when_free(self._keyed(want), run_id, wake)

    def assign(self, instance_id: str, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        self._pool.assign(instance_id, ref, role, task)

    def adopt(self, instance_id: str, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus) -> None:
        self._pool.adopt(instance_id, ref, role, standing)

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        self._pool.tell(instance_id, ref, frame)

    def cancel(self, instance_id: str, ref: common_pb2.TaskRef, reason: str) -> None:
        self._pool.cancel(instance_id, ref, reason)

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        self._pool.release_run(run_id, over=over)

    def _key(self, role: str) -> str:
        return role_key(self._tenant, role)

    def _keyed(self, want: Requirement) -> Requirement:
        return replace(want, role=self._key(want.role))
