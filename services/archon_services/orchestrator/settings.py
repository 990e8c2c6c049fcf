"""What an orchestrator can be told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from archon_services.common.settings import ServiceSettings


def default_journal() -> str:
    """Below ARCHON_HOME, else below the current directory."""
    return str(Path(os.environ.get("ARCHON_HOME", ".archon")) / "journal.db")


class OrchestratorSettings(ServiceSettings):
    """The orchestrator: takes runs on, sees them through, and tells how they stand."""

    section: ClassVar[str] = "orchestrator"

    registry: str = Field(default="127.0.0.1:7101", description="host:port of the registry")
    memory: str = Field(
        default="127.0.0.1:7102", description="host:port of the memory service; empty: nothing is published"
    )
    journal: str = Field(
        default_factory=default_journal, description="a file, postgresql://..., or 'memory' to survive nothing"
    )
    journal_sync: Literal["full", "normal"] = Field(
        default="full",
        description="of a file: full survives a power cut, normal the death of the process; PostgreSQL is always full",
    )
    advertise: str = Field(
        default="", description="host or host:port as other orchestrators dial it; empty: as it listens"
    )
    max_runs: int = Field(default=5_000, ge=1, description="runs under way at once; above it RESOURCE_EXHAUSTED")
    compact_after: float = Field(
        default=86_400.0, gt=0, description="seconds after its end until a run keeps its answers only"
    )
    delete_after: float = Field(default=30 * 86_400.0, gt=0, description="seconds after its end until a run is deleted")

    def advertised(self, address: str) -> str:
        """Where others dial this process, which listens at `address`."""
        if not self.advertise or ":" in self.advertise:
            return self.advertise or address
        return f"{self.advertise}:{address.rpartition(':')[2]}"
