"""Creates agents by registered name, alone or with other agents as their sub-agents."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from archon_mesh.agent.agent import Agent
from archon_mesh.agent.subagents import SubAgent

_log = logging.getLogger(__name__)

_PLACE: Final = ("name", "memory_graph", "agent_id")
"""Arguments that say who an agent is."""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """A registration. `expose_as_subagent` is the effective value: if it was not set, it follows the description."""

    cls: type[Agent]
    expose_as_subagent: bool
    subagent_name: str
    subagent_description: str
    stateless: bool
    override_decorator: bool
    defaults: Mapping[str, Any] = field(default_factory=dict)


class AgentFactory:
    """Creates agents from registered classes.

    `global_defaults` are constructor arguments of every agent. Later values override earlier ones: the global defaults,
    the defaults of the registration, then a sub-agent's entry in `subagent_config` or the overrides of the agent. A
    class with a constructor of its own receives these arguments and no others; its agents get their name, graph and id
    afterwards.
    """

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
        """Registers a class and returns the factory.

        The metadata set by `@subagent` overrides these arguments, unless `override_decorator` is set; the class itself
        is never changed. Raises ValueError if the name is taken, the class is not an Agent, or it is exposed without a
        description.
        """
        if name in self._specs:
            raise ValueError(f"agent {name!r} is already registered")
        if not isinstance(cls, type) or not issubclass(cls, Agent):
            raise ValueError(f"cannot register {name!r}: {_name_of(cls)} is not an Agent class")
        is_decorated = _has_metadata(cls)
        use_decorator = is_decorated and not override_decorator
        description = cls.subagent_description if use_decorator else subagent_description or cls.subagent_description
        is_exposed = bool(description) if expose_as_subagent is None else expose_as_subagent
        if is_exposed and not description and not is_decorated:
            raise ValueError(
                f"cannot expose {name!r} as a sub-agent without a description: pass subagent_description to "
                f"register(), or decorate {cls.__name__} with @subagent"
            )
        key = subagent_name or (cls.subagent_name if is_decorated else "") or name
        self._specs[name] = AgentSpec(
            cls,
            is_exposed,
            (cls.subagent_name or name) if use_decorator else key,
            description or "",
            cls.subagent_stateless if use_decorator else stateless,
            override_decorator,
            dict(defaults or {}),
        )
        return self

    def create(
        self,
        name: str,
        *,
        subagents: Sequence[str | Agent | SubAgent] | None = None,
        subagent_config: Mapping[str, Mapping[str, Any]] | None = None,
        **overrides: Any,
    ) -> Agent:
        """Returns a new agent with these sub-agents; more can be registered later.

        A name in `subagents` creates a new instance; an object, such as a remote agent, is shared. Raises ValueError if
        an agent is unknown, a sub-agent is unknown or not exposed, an object cannot be a sub-agent, or a key of
        `subagent_config` is not a name in `subagents`. A sub-agent that is not in the agent's memory graph is logged as
        a warning.
        """
        spec = self._find_spec(name, "agent")
        config = dict(subagent_config or {})
        names = [item for item in subagents or () if isinstance(item, str)]
        if unknown := sorted(config.keys() - set(names)):
            raise ValueError(
                f"subagent_config has unknown sub-agents {', '.join(unknown)}; named in subagents: "
                f"{', '.join(names) or 'none'}"
            )
        resolved = [self._resolve_sub_agent(item, config) for item in subagents or ()]
        agent = self._create(name, spec, overrides)
        for sub_agent in resolved:
            agent.register_agent(sub_agent)
        return agent

    def with_memory_graph(self, graph: Any) -> AgentFactory:
        """Gives the graph to every agent created from now on; its registered name is its id in the graph."""
        self._graph = graph
        return self

    def get_registered_names(self) -> list[str]:
        """Returns the registered names, in order of registration."""
        return list(self._specs)

    def is_registered(self, name: str) -> bool:
        """Tells whether the name is registered."""
        return name in self._specs

    def get_spec(self, name: str) -> AgentSpec | None:
        """Returns the registration, or None if the name is not registered."""
        return self._specs.get(name)

    def _find_spec(self, name: str, kind: str) -> AgentSpec:
        if name not in self._specs:
            raise ValueError(f"unknown {kind} {name!r}; registered: {', '.join(self._specs) or 'none'}")
        return self._specs[name]

    def _resolve_sub_agent(
        self, item: str | Agent | SubAgent, config: Mapping[str, Mapping[str, Any]]
    ) -> Agent | SubAgent:
        if isinstance(item, str):
            spec = self._find_spec(item, "sub-agent")
            if not spec.expose_as_subagent:
                raise ValueError(
                    f"{item!r} is not exposed as a sub-agent: register it with expose_as_subagent=True and a "
                    "subagent_description"
                )
            return self._create(item, spec, config.get(item, {}))
        if isinstance(item, Agent):
            if not _has_metadata(type(item)):
                raise ValueError(
                    f"{item.name!r} cannot be a sub-agent: decorate {type(item).__name__} with @subagent, or create "
                    "it from a registration that is exposed"
                )
            if not item.subagent_stateless:
                _log.warning(
                    "the stateful agent %r is shared as a sub-agent: calls are serialised, and history is shared",
                    item.name,
                )
            return item
        if isinstance(item, SubAgent):
            return item
        raise ValueError(f"{item!r} cannot be a sub-agent: pass a registered name or an agent")

    def _create(self, name: str, spec: AgentSpec, overrides: Mapping[str, Any]) -> Agent:
        given = {**self._global_defaults, **spec.defaults, **overrides}
        place: dict[str, Any] = {"name": name}
        if self._graph is not None:
            place |= {"memory_graph": self._graph, "agent_id": name}
        place |= {key: given[key] for key in _PLACE if key in given}
        cls = self._class_for(name, spec)
        if cls.__init__ is Agent.__init__:
            return cls(**{**given, **place})
        agent = cls.__new__(cls)
        Agent.__init__(agent, **place)  # in case the class never calls super().__init__
        cls.__init__(agent, **given)
        if "memory_graph" in place:
            place.setdefault("agent_id", place["name"])
        agent.name = agent.history.agent_name = place["name"]
        agent.config = replace(agent.config, name=place["name"])
        agent.memory_graph = place.get("memory_graph", agent.memory_graph)
        agent.agent_id = place.get("agent_id", agent.agent_id)
        agent.warn_of_missing_nodes()
        return agent

    def _class_for(self, name: str, spec: AgentSpec) -> type[Agent]:
        """Returns the registered class, or a subclass with the metadata of the registration."""
        metadata = {
            "subagent_name": "",
            "subagent_description": "",
            "subagent_stateless": False,
            "subagent_exposed": False,
        }
        if spec.expose_as_subagent:
            metadata = {
                "subagent_name": spec.subagent_name,
                "subagent_description": spec.subagent_description,
                "subagent_stateless": spec.stateless,
                "subagent_exposed": True,
            }
        if all(getattr(spec.cls, key, None) == value for key, value in metadata.items()):
            return spec.cls
        if name not in self._classes:
            self._classes[name] = type(spec.cls.__name__, (spec.cls,), {**metadata, "__module__": spec.cls.__module__})
        return self._classes[name]


def _has_metadata(cls: type[Agent]) -> bool:
    """Tells whether the class has sub-agent metadata, set by the decorator or as class attributes."""
    return bool(cls.subagent_exposed or cls.subagent_name or cls.subagent_description)


def _name_of(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)
