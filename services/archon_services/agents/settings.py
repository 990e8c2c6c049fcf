"""What an agent's process can be told by flags, environment or file."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, field_validator

from archon.agent import AgentSettings
from archon_services.common.settings import ServiceSettings


class AgentServiceSettings(ServiceSettings):
    """An agent that plays one role."""

    section: ClassVar[str] = "agents"

    registry: str = Field(default="", description="the registry's host:port; empty: serves without being registered")
    memory: str = Field(
        default="",
        description="host:port of the memory service, through which agents of a run share values; empty: they don't",
    )
    advertise: str = Field(default="", description="host or host:port as others dial it; empty: as it listens")
    depends_on: str | None = Field(
        default=None, description="roles it depends on, comma separated, instead of the role's own"
    )
    max_tasks: int = Field(default=0, ge=0, le=100_000, description="how many tasks run at once; 0: as the role says")
    ttl: float = Field(
        default=10.0, ge=1.0, le=3600.0, description="seconds that the registration outlives the process"
    )
    model: str = Field(default="offline", description="the model: offline, or openai/NAME")

    @field_validator("depends_on", mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return ",".join(map(str, value)) if isinstance(value, list) else value

    def agent_settings(self) -> AgentSettings:
        """As the SDK takes them."""
        roles = None if self.depends_on is None else tuple(r.strip() for r in self.depends_on.split(",") if r.strip())
        return AgentSettings(
            host=self.host,
            port=self.port,
            registry=self.registry,
            advertise=self.advertise,
            depends_on=roles,
            max_tasks=self.max_tasks,
            ttl=self.ttl,
            log_level=self.log_level,
            ready_file=self.ready_file,
        )
