"""A role of the mesh: its prompt, its capabilities and its dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon.errors import InvalidArgument
from archon.identifiers import check_role
from archon.learning import check_variants
from archon.registry import Capability, DependsOn, Profile
from archon_mesh.llm.base import CALL_TIMEOUT, ModelClient
from archon_mesh.llm.retry import RETRIES
from archon_mesh.node.arbiter.options import Arbitration


@dataclass(frozen=True, slots=True)
class Role:
    """One role of the mesh.

    `capabilities` are ids such as `design.components`, or whole Capabilities. `depends_on` names the roles whose
    answers this role receives, with `all_ancestors` also the answers of all their ancestors. A `coordinator` gets the
    other roles as tools, and the dependencies among them. A `stateful` role remembers each session: the mesh stores its
    history, and sends it to whichever instance gets the next task. With `asks_credentials`, a person who follows the
    run is asked for credentials that the tools lack. A `planner` makes plans: neither delegations nor steps of plans go
    to it. With `arbiter` the role settles conflicts among the answers of steps, as `arbiter_handler` does. `profile`
    has facts about the role for callers and planners. `max_tasks` is the number of tasks that one process works on
    concurrently. `temperature` and `max_tokens` (of a reply) are the model's defaults if None; `timeout` limits one
    model call, in seconds; `retries`, `fallback_model`, `output`, `messages` and `prompt_variants` are as in an agent.

    Raises InvalidArgument if the name is invalid, the prompt is empty, or the role depends on itself.
    """

    name: str
    system_prompt: str
    description: str = ""
    capabilities: Sequence[Capability | str] = ()
    depends_on: Sequence[DependsOn | str] = ()
    all_ancestors: bool = False
    coordinator: bool = False
    stateful: bool = False
    asks_credentials: bool = False
    planner: bool = False
    arbiter: Arbitration | None = None
    profile: Profile | None = None
    version: str = "0.1.0"
    max_tasks: int = 8
    tags: Mapping[str, str] = field(default_factory=dict)
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = CALL_TIMEOUT
    retries: int = RETRIES
    fallback_model: ModelClient | str | None = None
    output: object = None
    messages: bool | Sequence[str] = False
    prompt_variants: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_role(self.name)
        if not self.system_prompt.strip():
            raise InvalidArgument(f"role {self.name!r} needs a system prompt")
        check_variants(self.prompt_variants, f"role {self.name}")
        dependencies = [edge.role if isinstance(edge, DependsOn) else edge for edge in self.depends_on]
        if self.name in dependencies:
            raise InvalidArgument(f"role {self.name} cannot depend on itself")
