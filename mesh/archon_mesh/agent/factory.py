"""Agents by registered name, alone or with others as their sub-agents."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.agent.agent import Agent
from archon_mesh.agent.subagents import Callee

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """What is registered under a name. `expose_as_subagent` is what follows from what was given: unset, it follows the
    description."""

    cls: type[Agent]
    expose_as_subagent: bool
    subagent_name: str
    subagent_description: str
    stateless: bool
    override_decorator: bool
    defaults: Mapping[str, Any] = field(default_factory=dict)


class AgentFactory:
    """`global_defaults` are arguments of every agent. What is merged, later wins: global defaults, the defaults of the
    registration, then a sub-agent's part of `subagent_config`, or the overrides of the agent itself."""

    def __init__(self, global_defaults: Mapping[str, Any] | None = None) -> None:
        self._global_defaults = dict(global_defaults or {})
        self._specs: dict[str, AgentSpec] = {}
        self._classes: dict[str, type[Agent]] = {}
        self._graph: Any = None

    def register(
        self,
        name: str,
        cls: type[Agent],
        *,
        expose_as_subagent: bool | None = None,
        subagent_name: str | None = None,
        subagent_description: str | None = None,
        stateless: bool = False,
        override_decorator: bool = False,
        defaults: Mapping[str, Any] | None = None,
    ) -> AgentFactory:
        """Takes a class in; returns the factory. What `@subagent` says of the class wins over what is said here, unless
        `override_decorator`; the class itself is never changed.

        Raises ValueError for a name that is taken, a class that is no agent, and one that is exposed without a
        description.
        """
        if name in self._specs:
            raise ValueError(f"an agent {name!r} is registered already")
        if not isinstance(cls, type) or not issubclass(cls, Agent):
            raise ValueError(f"{name!r} can't be registered: {_name_of(cls)} is no agent")
        decorated = _has_metadata(cls)
        own = decorated and not override_decorator
        described = cls.subagent_description if own else subagent_description or cls.subagent_description
        exposed = bool(described) if expose_as_subagent is None else expose_as_subagent
        if exposed and not described and not decorated:
            raise ValueError(
                f"{name!r} can't be exposed as a sub-agent without a description: give register() a "
                f"subagent_description, or decorate {cls.__name__} with @subagent"
            )
        given_name = subagent_name or (cls.subagent_name if decorated else "") or name
        self._specs[name] = AgentSpec(
            cls,
            exposed,
            (cls.subagent_name or name) if own else given_name,
            described or "",
            cls.subagent_stateless if own else stateless,
            override_decorator,
            dict(defaults or {}),
        )
        return self

    def create(
        self,
        name: str,
        *,
        subagents: Sequence[str | Agent | Callee] | None = None,
        subagent_config: Mapping[str, Mapping[str, Any]] | None = None,
        **overrides: Any,
    ) -> Agent:
        """A new agent: alone where `subagents` is None; else one that orchestrates them, and to which more can be
        registered. A name stands for a new instance, an object is shared as it is; roles of the mesh are objects, too.

        Raises ValueError for an unknown agent, an unknown sub-agent or one that isn't exposed, an object that can't be
        a sub-agent, and a key of `subagent_config` that is none of the names in `subagents`.
        """
        spec = self._known(name, "agent")
        config = dict(subagent_config or {})
        named = [one for one in subagents or () if isinstance(one, str)]
        if strange := sorted(config.keys() - set(named)):
            raise ValueError(
                f"subagent_config has {', '.join(strange)}, but the sub-agents that are given by name are: "
                f"{', '.join(named) or 'none'}"
            )
        below = [self._below(one, config) for one in subagents or ()]
        agent = self._made(name, spec, overrides)
        for one in below:
            agent.register_agent(one)
        return agent

    def with_memory_graph(self, graph: Any) -> AgentFactory:
        """Every agent that is made from here on has the graph, and its registered name as its id in it."""
        self._graph = graph
        return self

    def get_registered_names(self) -> list[str]:
        """In the order in which they were registered."""
        return list(self._specs)

    def is_registered(self, name: str) -> bool:
        """Whether something is registered under the name."""
        return name in self._specs

    def get_spec(self, name: str) -> AgentSpec | None:
        """None where nothing is registered under the name."""
        return self._specs.get(name)

    def _known(self, name: str, what: str) -> AgentSpec:
        if name not in self._specs:
            raise ValueError(f"unknown {what} {name!r}; available are: {', '.join(self._specs) or 'none'}")
        return self._specs[name]

    def _below(self, one: str | Agent | Callee, config: Mapping[str, Mapping[str, Any]]) -> Agent | Callee:
        if isinstance(one, str):
            spec = self._known(one, "sub-agent")
            if not spec.expose_as_subagent:
                raise ValueError(
                    f"{one!r} is not exposed as a sub-agent: register it with expose_as_subagent=True and a "
                    "subagent_description"
                )
            return self._made(one, spec, config.get(one, {}))
        if isinstance(one, Agent):
            if not _has_metadata(type(one)):
                raise ValueError(
                    f"{one.name!r} can't be a sub-agent: decorate {type(one).__name__} with @subagent, or have a "
                    "factory make it from a registration that is exposed"
                )
            if not one.subagent_stateless:
                _log.warning(
                    "the stateful agent %r is shared as a sub-agent: calls are serialised, and history is shared",
                    one.name,
                )
            return one
        if isinstance(one, Callee):
            return one
        raise ValueError(f"{one!r} can't be a sub-agent: a registered name, or an agent, is wanted")

    def _made(self, name: str, spec: AgentSpec, last: Mapping[str, Any]) -> Agent:
        merged = {**self._global_defaults, **spec.defaults, **last}
        merged.setdefault("name", name)
        if self._graph is not None:
            merged.setdefault("memory_graph", self._graph)
            merged.setdefault("agent_id", name)
        return self._class_of(name, spec)(**merged)

    def _class_of(self, name: str, spec: AgentSpec) -> type[Agent]:
        """The class itself, or one below it that says of itself what is registered."""
        said = {"subagent_name": "", "subagent_description": "", "subagent_stateless": False, "subagent_exposed": False}
        if spec.expose_as_subagent:
            said = {
                "subagent_name": spec.subagent_name,
                "subagent_description": spec.subagent_description,
                "subagent_stateless": spec.stateless,
                "subagent_exposed": True,
            }
        if all(getattr(spec.cls, key, None) == value for key, value in said.items()):
            return spec.cls
        if name not in self._classes:
            self._classes[name] = type(spec.cls.__name__, (spec.cls,), {**said, "__module__": spec.cls.__module__})
        return self._classes[name]


def _has_metadata(cls: type[Agent]) -> bool:
    """Whether the class says how its instances are seen as sub-agents, by decorator or by its attributes."""
    return bool(cls.subagent_exposed or cls.subagent_name or cls.subagent_description)


def _name_of(what: object) -> str:
    return what.__name__ if isinstance(what, type) else repr(what)
