"""Transports without instances."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.ports import Slot


class Instances:
    """A transport without free slots that records released runs."""

    def __init__(self) -> None:
        self.released: list[str] = []

    def of_tenant(self, tenant: str) -> Any:
        return self

    def stateful(self, role: str) -> bool:
        return False

    def message_types(self, role: str) -> dict[str, str]:
        return {}

    def reserve(self, want: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Slot | None:
        return None

    def when_free(self, want: Requirement, run_id: str, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        self.released.append(run_id)
