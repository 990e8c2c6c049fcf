"""What a process says of itself when it registers. Plain values, no wire."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon.propagation import PropagationPolicy


@dataclass(frozen=True, slots=True)
class Capability:
    """Something a role can do, with the fields of an A2A skill. Tasks are matched by `id`: lower case, dots, dashes."""

    id: str
    name: str = ""
    description: str = ""
    tags: Sequence[str] = ()
    examples: Sequence[str] = ()
    input_modes: Sequence[str] = ()
    output_modes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the role has, with MCP's fields; the last four are hints, not promises."""

    name: str
    description: str = ""
    input_schema_json: str = ""
    output_schema_json: str = ""
    title: str = ""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class DependsOn:
    """The role waits for the answers of `role`."""

    role: str
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY


@dataclass(frozen=True, slots=True)
class Profile:
    """More about a role; 0 where unknown. `expected_quality` is 0 to 1 by its own measure, cost is in millionths of a
    US dollar, `message_types` maps a type of message to the roles it is exchanged with, comma separated."""

    instructions: str = ""
    expected_latency_ms: int = 0
    expected_cost_micro_usd: int = 0
    expected_quality: float = 0.0
    message_types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registration:
    """One running process that serves a role. `address` is host:port as others dial it; `version` dotted numbers; `ttl`
    seconds, 1 to 3600 (whole ones: a fraction is rounded up); `instance_id` is made new where it is left empty.
    With `all_ancestors` its tasks are handed the answers of all ancestors, not only of the roles in `depends_on`. A
    `coordinator` is told of the other roles and of the edges among them. A `stateful` one is told what it
    remembers of a session.

    The last four are the registry's to say and are ignored when registering.
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
    tenant: str = ""
    identity: str = ""
    revision: int = 0
    via_orchestrator: str = ""

    def __post_init__(self) -> None:
        if not self.instance_id:
            object.__setattr__(self, "instance_id", f"{self.role or 'instance'}-{uuid.uuid4().hex[:12]}")
