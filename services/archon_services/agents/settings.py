"""Settings of an agent process, from flags, environment variables or a file."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from archon.agent import AgentSettings
from archon.agent.settings import DRAIN_GRACE, roles_in
from archon_services.common.settings import ServiceSettings

if TYPE_CHECKING:
    from archon_mesh.declared import ModelOverrides


class AgentServiceSettings(ServiceSettings):
    """Settings of a process that serves one role."""

    section: ClassVar[str] = "agents"

    registry: str = Field(default="", description="host:port of the registry; empty: does not register")
    memory: str = Field(
        default="",
        description="host:port of the memory service, with the shared values of a run and the long-term memory of "
        "agents; empty: no shared values, and long-term memory in files below ARCHON_HOME",
    )
    advertise: str = Field(
        default="", description="host or host:port that others dial; empty: the address it listens on"
    )
    attach: str = Field(
        default="",
        description="host:port of an orchestrator to attach to: the agent does not listen, it opens its sessions "
        "itself; empty: orchestrators dial it",
    )
    orchestrator: str = Field(
        default="",
        description="host:port of the orchestrator to attach to if none can dial the agent; empty: it stays unreached",
    )
    depends_on: str | None = Field(
        default=None, description="comma-separated roles that replace the dependencies of the role"
    )
    max_tasks: int = Field(
        default=0, ge=0, le=100_000, description="maximum number of concurrent tasks; 0: the default of the role"
    )
    ttl: float = Field(
        default=10.0, ge=1.0, le=3600.0, description="seconds until the registration of a crashed process expires"
    )
    drain: float = Field(
        default=DRAIN_GRACE,
        ge=0.0,
        le=3600.0,
        description="seconds that tasks in progress have to end when the process is stopped; then they are given back",
    )
    model: str = Field(
        default="offline",
        description="the model, such as offline, openai/NAME or anthropic/NAME; several, separated by commas, are a "
        "fallback chain",
    )
    model_timeout: float | None = Field(
        default=None, gt=0, description="seconds of one model call; empty: the role's value"
    )
    model_idle_timeout: float | None = Field(
        default=None, gt=0, description="seconds without a piece of the reply; empty: the role's value"
    )
    model_first_token_timeout: float | None = Field(
        default=None,
        gt=0,
        description="seconds that a model may be silent before its first token, while it loads or reads the prompt; "
        "empty: the role's value",
    )
    model_retries: int | None = Field(
        default=None,
        ge=0,
        description="how often a model call is made again after an error that may pass; empty: the role's value",
    )
    fallback_model: str = Field(
        default="",
        description="the model that answers if the other one keeps failing; empty: the role's",
    )

    @field_validator("depends_on", mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return ",".join(map(str, value)) if isinstance(value, list) else value

    @property
    def serves(self) -> str:
        """How the agent is reached."""
        return "attached to" if self.attach else super().serves

    def overrides(self) -> ModelOverrides:
        """Returns the overrides of a file's settings of model calls."""
        from archon_mesh.declared import ModelOverrides  # commands that only read settings need no agents

        return ModelOverrides(
            None,
            self.model_timeout,
            self.model_retries,
            self.fallback_model or None,
            self.model_idle_timeout,
            self.model_first_token_timeout,
        )

    def agent_settings(self) -> AgentSettings:
        """Converts to the settings of the SDK."""
        values = self.model_dump(include={field.name for field in fields(AgentSettings)})
        roles = None if self.depends_on is None else roles_in(self.depends_on)
        return AgentSettings(**{**values, "depends_on": roles})
