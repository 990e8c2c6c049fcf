"""What makes a role: a prompt, what it can do, and whose answers it builds on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from archon.errors import InvalidArgument
from archon.registry import Capability, DependsOn


@dataclass(frozen=True, slots=True)
class Role:
    """One role of the mesh.

    `capabilities` are ids such as `design.components`, or whole Capabilities; `depends_on` names the roles whose
    answers it is given, with `all_ancestors` those of all their ancestors too. A `coordinator` sees the other
    roles as tools, and is told of the edges among them. A `stateful` one remembers each session: the mesh keeps what
    was said, and whatever instance has the next task is told it. `max_tasks` is how many tasks one process works on at
    once. `temperature` and `max_tokens` (of a reply) are the model's own where None; `timeout`
    bounds one call of the model, in seconds.

    Raises InvalidArgument for an empty name or prompt, and for a dependency on itself.
    """

    name: str
    system_prompt: str
    description: str = ""
    capabilities: Sequence[Capability | str] = ()
    depends_on: Sequence[DependsOn | str] = ()
    all_ancestors: bool = False
    coordinator: bool = False
    stateful: bool = False
    version: str = "0.1.0"
    max_tasks: int = 8
    tags: Mapping[str, str] = field(default_factory=dict)
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = 120.0

    def __post_init__(self) -> None:
        if not self.name or not self.system_prompt.strip():
            raise InvalidArgument(f"role {self.name!r} needs a name and a system prompt")
        if any((one.role if isinstance(one, DependsOn) else one) == self.name for one in self.depends_on):
            raise InvalidArgument(f"role {self.name} can't depend on itself")
