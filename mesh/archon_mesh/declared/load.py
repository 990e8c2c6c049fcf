"""From a file to an agent, and to the role that it is served as."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic

from archon.errors import InvalidArgument
from archon.registry import Capability, DependsOn, PropagationPolicy
from archon_mesh.agent.agent import Agent
from archon_mesh.agent.config import AgentConfig
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.declared.lines import Document
from archon_mesh.declared.schema import AgentFile, AgentPart, EdgePart, Imported, SubAgentPart
from archon_mesh.llm.base import ModelClient
from archon_mesh.node.remote_agent import mesh_role
from archon_mesh.node.role import Role
from archon_mesh.tools.function import FunctionTool
from archon_mesh.tools.tool import Tool

MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Declared:
    """What a file declares: an agent that is ready to run, and the role that `archon serve` serves it as."""

    agent: Agent
    role: Role


def load_agent(
    path: Path | str,
    *,
    model: ModelClient | str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Declared:
    """Reads a file. `model` plays where the file says of none; None: ARCHON_MODEL, else offline. Modules are also
    looked for beside the file. Raises NotFound, and InvalidArgument with file, line and key for whatever is wrong."""
    given = dict(os.environ if environment is None else environment)
    return _Loader(model or given.get("ARCHON_MODEL") or "offline", given).file(Path(path), 0)


class _Loader:
    def __init__(self, model: ModelClient | str, environment: Mapping[str, str]) -> None:
        self._model = model
        self._environment = environment

    def file(self, path: Path, depth: int) -> Declared:
        document = Document(path, self._environment)
        if depth > MAX_DEPTH:
            raise document.wrong((), f"{depth} files name each other as sub-agents")
        try:
            said = AgentFile.model_validate(document.value)
        except pydantic.ValidationError as error:
            raise _first(document, error) from None
        agent = self._agent(document, (), said, said.name, depth)
        return Declared(agent, self._role(document, said))

    def _agent(self, document: Document, key: tuple[str | int, ...], said: AgentPart, name: str, depth: int) -> Agent:
        tools = [self._tool(document, (*key, "tools", number), one) for number, one in enumerate(said.tools)]
        middlewares = [
            self._middleware(document, (*key, "middlewares", number), one)
            for number, one in enumerate(said.middlewares)
        ]
        config = AgentConfig(
            name=name,
            description=said.description,
            system_prompt=said.system_prompt,
            model=said.model or self._model,
            tools=tools,
            max_iterations=said.max_iterations,
            tool_policy=said.tool_policy.model_dump() if said.tool_policy is not None else None,
            exit_on_success=said.exit_on_success,
            middlewares=middlewares,
            all_ancestors=said.all_ancestors,
            temperature=said.temperature,
            max_tokens=said.max_tokens,
            timeout=said.timeout,
            tool_timeout=said.tool_timeout,
            max_running_subagents=said.max_running_subagents,
        )
        try:
            agent = Agent(config)
        except Exception as error:
            raise document.wrong((*key, "tools"), str(error)) from error
        for called, below in said.sub_agents.items():
            at = (*key, "sub_agents", called)
            try:
                agent.register_agent(
                    self._below(document, at, below, called, depth),
                    name=called,
                    description=below.description,
                    stateless=below.stateless,
                )
            except InvalidArgument:
                raise
            except Exception as error:
                raise document.wrong(at, str(error)) from error
        if unknown := sorted({*said.exit_on_success} - {one.name for one in agent.tools.list_tools()}):
            raise document.wrong((*key, "exit_on_success"), f"there is no tool {unknown[0]!r}")
        return agent

    def _below(
        self, document: Document, key: tuple[str | int, ...], said: SubAgentPart, called: str, depth: int
    ) -> Any:
        if said.role:
            timeout = said.timeout if "timeout" in said.model_fields_set else None
            return mesh_role(said.role, description=said.description, timeout=timeout)
        if said.file:
            return self.file(document.path.parent / said.file, depth + 1).agent
        return self._agent(document, key, said, said.name or called, depth)

    def _tool(self, document: Document, key: tuple[str | int, ...], said: Imported) -> Tool:
        path = said.import_
        made = self._imported(document, key, path, said.params, makes=Tool)
        if isinstance(made, Tool):
            return made
        if callable(made) and not isinstance(made, type):
            try:
                return FunctionTool(made)
            except InvalidArgument as error:
                raise document.wrong(key, str(error)) from None
        raise document.wrong(key, f"{path} is no tool: a Tool, or a function")

    def _middleware(self, document: Document, key: tuple[str | int, ...], said: Imported) -> Middleware:
        made = self._imported(document, key, said.import_, said.params or {}, makes=Middleware)
        if not isinstance(made, Middleware):
            raise document.wrong(key, f"{said.import_} is no middleware")
        return made

    def _imported(
        self,
        document: Document,
        key: tuple[str | int, ...],
        path: str,
        params: Mapping[str, Any] | None,
        *,
        makes: type,
    ) -> Any:
        """What stands at an import path; called with the parameters where there are any, or where it is a class."""
        module, _, name = path.partition(":")
        try:
            found: Any = _module(module, document.path.parent)
            for step in name.split("."):
                found = getattr(found, step)
        except (ImportError, AttributeError) as error:
            raise document.wrong(key, f"{path} can't be imported: {error}") from None
        except Exception as error:
            raise document.wrong(key, f"{path} can't be imported: {type(error).__name__}: {error}") from error
        if isinstance(found, makes) or (params is None and not isinstance(found, type)):
            if params:
                raise document.wrong((*key, "params"), f"{path} is made already, and takes no parameters")
            return found
        try:
            return found(**(params or {}))
        except Exception as error:
            raise document.wrong((*key, "params"), f"{path} can't be made: {error}") from error

    def _role(self, document: Document, said: AgentFile) -> Role:
        role = said.role
        try:
            return Role(
                name=said.name,
                system_prompt=said.system_prompt or said.description or said.name,
                description=said.description,
                capabilities=[Capability(**one.model_dump()) for one in role.capabilities],
                depends_on=[_edge(one) for one in role.depends_on],
                all_ancestors=said.all_ancestors,
                coordinator=role.coordinator,
                stateful=role.stateful,
                version=role.version,
                max_tasks=role.max_tasks,
                tags=role.tags,
            )
        except InvalidArgument as error:
            raise document.wrong(("role",), str(error)) from None


def _module(name: str, folder: Path) -> Any:
    """Also from beside the file."""
    beside = str(folder.resolve())
    sys.path.insert(0, beside)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(beside)


def _edge(said: EdgePart) -> DependsOn | str:
    policy = PropagationPolicy(said.policy)
    return said.role if policy is PropagationPolicy.FINAL_RESPONSE_ONLY else DependsOn(said.role, policy)


def _first(document: Document, error: pydantic.ValidationError) -> InvalidArgument:
    """The mistake that stands highest in the file; the others are counted."""
    found = sorted(
        ((_key(document, one["loc"]), one["msg"]) for one in error.errors()), key=lambda at: document.line(at[0])
    )
    key, message = found[0]
    more = len({one for one, _ in found}) - 1
    said = message.removeprefix("Value error, ")
    return document.wrong(key, f"{said}{f' (and {more} more)' if more else ''}")


def _key(document: Document, loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """Without what pydantic puts in for the arms of a union."""
    key: list[str | int] = []
    value: Any = document.value
    for step in loc:
        inside = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and step < len(value)
        )
        if inside:
            value = value[step]
            key.append(step)
        elif step == loc[-1] and isinstance(value, dict):
            key.append(step)  # what is missing
    return tuple(key)
