"""The description of itself that a process registers. Plain values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon.propagation import PropagationPolicy


@dataclass(frozen=True, slots=True)
class Capability:
    """A capability of a role, with the fields of an A2A skill. Tasks are matched by `id`: lower case, dots, dashes."""

    id: str
    name: str = ""
    description: str = ""
    tags: Sequence[str] = ()
    examples: Sequence[str] = ()
    input_modes: Sequence[str] = ()
    output_modes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ToolShare:
    """The terms on which a tool is shared, and how the calls of other agents have ended since the process started.

    `max_calls_per_minute` is for one lease, 0 if unlimited. `success_rate` is the part of the `calls` that succeeded, 0
    to 1; `mean_latency` is in seconds, of the last 100 calls.
    """

    max_calls_per_minute: int = 0
    calls: int = 0
    success_rate: float = 0.0
    mean_latency: float = 0.0


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a role, with the fields of an MCP tool; `read_only` to `open_world` are hints. With `share`, other
    agents may lease it."""

    name: str
    description: str = ""
    input_schema_json: str = ""
    output_schema_json: str = ""
    title: str = ""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    share: ToolShare | None = None


@dataclass(frozen=True, slots=True)
class DependsOn:
    """A dependency: the role waits for the answers of `role`."""

    role: str
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY


@dataclass(frozen=True, slots=True)
class Profile:
    """Further facts about a role; 0 means unknown. `expected_quality` is 0 to 1 by the role's own measure, cost is in
    millionths of a US dollar, `message_types` maps a message type to the roles that exchange it, comma separated;
    `prompt_template` is the template of a good input, with `{name}` for each value that the caller fills in."""

    instructions: str = ""
    expected_latency_ms: int = 0
    expected_cost_micro_usd: int = 0
    expected_quality: float = 0.0
    message_types: Mapping[str, str] = field(default_factory=dict)
    prompt_template: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """A running process that serves a role.

    `address` is host:port as others dial it; `version` is dotted numbers; `ttl` is in seconds, 1 to 3600 (fractions are
    rounded up); an empty `instance_id` is replaced by a new one. With `all_ancestors` tasks receive the answers of all
    ancestors, not only of the roles in `depends_on`. Tasks of a `coordinator` receive descriptions of the other roles
    and their edges. Tasks of a `stateful` role receive the history of their session. A `planner` makes plans: neither
    delegations of coordinators nor steps of plans go to it. `output_schema_json` is the JSON Schema of the role's
    answers, if they are JSON.

    `via_orchestrator` is host:port of the orchestrator through which an attached agent is reached; it then has no
    `address`. Only orchestrators register with it.

    The registry sets `tenant`, `identity` and `revision`; they are ignored when registering.
    """

    role: str
    version: str = ""
    address: str = ""
    description: str = ""
    capabilities: Sequence[Capability] = ()
    tools: Sequence[Tool] = ()
    depends_on: Sequence[DependsOn] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    max_tasks: int = 1
    ttl: float = 10.0
    instance_id: str = ""
    profile: Profile | None = None
    all_ancestors: bool = False
    coordinator: bool = False
    stateful: bool = False
    planner: bool = False
    output_schema_json: str = ""
    tenant: str = ""
    identity: str = ""
    revision: int = 0
    via_orchestrator: str = ""

    def __post_init__(self) -> None:
        if not self.instance_id:
            object.__setattr__(self, "instance_id", f"{self.role or 'instance'}-{uuid.uuid4().hex[:12]}")

    @property
    def dialled_at(self) -> str:
        """host:port that an orchestrator dials for a session: of the instance, or of the orchestrator that it is
        attached to."""
        return self.address or self.via_orchestrator
