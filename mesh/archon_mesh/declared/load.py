"""Loads a declared agent, and the role that it is served as."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import pydantic

from archon.errors import ArchonError, InvalidArgument
from archon.registry import Capability, DependsOn, Profile, PropagationPolicy
from archon_mesh.agent.agent import Agent
from archon_mesh.agent.config import AgentConfig
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.declared.document import Document, Key
from archon_mesh.declared.mistakes import mistakes
from archon_mesh.declared.overrides import ModelOverrides
from archon_mesh.declared.rules import tool_rules
from archon_mesh.declared.schema import (
    IMPORT_PATTERN,
    AgentFile,
    AgentPart,
    EdgePart,
    Imported,
    McpPart,
    MemoryPart,
    ModelPart,
    ProfilePart,
    RemoteToolPart,
    SubAgentPart,
)
from archon_mesh.llm.base import ModelClient
from archon_mesh.llm.create import ModelSpec
from archon_mesh.llm.structured import TypedOutput
from archon_mesh.memory.automatic import MemoryMiddleware, MemorySettings, open_memory
from archon_mesh.node.arbiter.options import Arbitration
from archon_mesh.node.remote_agent import RemoteAgent
from archon_mesh.node.role import Role
from archon_mesh.tools.credentials import Secret
from archon_mesh.tools.function import FunctionTool
from archon_mesh.tools.mcp import McpToolSource
from archon_mesh.tools.registry import SEPARATOR
from archon_mesh.tools.remote import RemoteTool
from archon_mesh.tools.tool import Tool

MAX_DEPTH = 8

_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class DeclaredAgent:
    """The content of a file: an agent, and the role that `archon serve` serves it as."""

    agent: Agent
    role: Role


def load_agent(
    path: Path | str,
    *,
    model: ModelClient | str | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: ModelOverrides | None = None,
) -> DeclaredAgent:
    """Loads a file. Modules are also imported from its folder: a file is code, and runs with the rights of the process.
    Imports are resolved and checked before anything is called.

    `model` is the model of agents whose file sets none, by default ARCHON_MODEL, or `offline`; `overrides` win over the
    file. Raises NotFound, and InvalidArgument with file, line and key.
    """
    variables = dict(os.environ if environment is None else environment)
    default = model or variables.get("ARCHON_MODEL") or "offline"
    return _Loader(default, variables, overrides or ModelOverrides()).load(Path(path))


@dataclass(frozen=True, slots=True)
class _File:
    """A file whose content is valid: its imports by key, and the files of its sub-agents. Nothing is called yet."""

    document: Document
    declaration: AgentFile
    imports: dict[Key, Any]
    files: dict[Key, _File]


class _Loader:
    """First reads all files and resolves their imports, then calls the functions that they name."""

    def __init__(self, model: ModelClient | str, environment: Mapping[str, str], overrides: ModelOverrides) -> None:
        self._model = model
        self._overrides = overrides
        self._environment = environment

    def load(self, path: Path) -> DeclaredAgent:
        file = self._read(path, 0, None)
        agent = self._agent(file, (), file.declaration, file.declaration.name)
        return DeclaredAgent(agent, self._role(file.document, file.declaration))

    def _read(self, path: Path, depth: int, parent: Document | None) -> _File:
        document = Document(path, self._environment, parent)
        if depth > MAX_DEPTH:
            raise document.error((), f"sub-agents are nested in more than {MAX_DEPTH} files")
        try:
            declaration = AgentFile.model_validate(document.value)
        except pydantic.ValidationError as error:
            raise document.errors(mistakes(document, error)) from None
        file = _File(document, declaration, {}, {})
        self._resolve(file, (), declaration, depth)
        return file

    def _resolve(self, file: _File, key: Key, part: AgentPart, depth: int) -> None:
        """Resolves the imports of a part, and reads the files of its sub-agents."""
        for index, tool in enumerate(part.tools):
            file.imports[*key, "tools", index] = _imported(file.document, (*key, "tools", index), tool, Tool)
        for index, middleware in enumerate(part.middlewares):
            middleware_key = (*key, "middlewares", index)
            imported = file.imports[middleware_key] = _imported(file.document, middleware_key, middleware, Middleware)
            params = middleware.params or {}
            for param in sorted(params.keys() & getattr(imported, "imported_params", frozenset())):
                param_key = (*middleware_key, "params", param)
                file.imports[param_key] = _imported_function(file.document, param_key, params[param])
        if part.goal_check is not None:
            goal_key = (*key, "goal_check")
            file.imports[goal_key] = _imported_function(file.document, goal_key, part.goal_check)
        if part.output is not None:
            file.imports[*key, "output"] = _output(file.document, (*key, "output"), part.output)
        for name, sub_agent in part.sub_agents.items():
            sub_agent_key = (*key, "sub_agents", name)
            if sub_agent.file and not sub_agent.role:
                file.files[sub_agent_key] = self._read(
                    file.document.path.parent / sub_agent.file, depth + 1, file.document
                )
            elif not sub_agent.role:
                self._resolve(file, sub_agent_key, sub_agent, depth)

    def _agent(self, file: _File, key: Key, part: AgentPart, name: str) -> Agent:
        document = file.document
        tools = [_tool(file, (*key, "tools", index), item) for index, item in enumerate(part.tools)]
        tools += [self._remote_tool(file, (*key, "remote_tools", i), each) for i, each in enumerate(part.remote_tools)]
        try:
            agent = Agent(self._config(file, key, part, name, tools))
        except Exception as error:  # noqa: BLE001 - a user's tool may raise anything
            raise document.error((*key, _blamed(part, error)), str(error)) from document.cause(error)
        self._register_sub_agents(agent, file, key, part)
        ending = (each for each in part.exit_on_success if each.partition(SEPARATOR)[0] not in part.mcp)
        known = {*agent.tools.names, *(tool.full_name for tool in tools if isinstance(tool, RemoteTool))}
        if unknown := sorted({*ending} - known):
            raise document.error((*key, "exit_on_success"), f"no tool {unknown[0]!r}")
        return agent

    def _config(self, file: _File, key: Key, part: AgentPart, name: str, tools: list[Tool]) -> AgentConfig:
        """Returns the configuration of an agent: the values of its file, replaced by those that were given."""
        given = self._overrides
        middlewares = [
            _middleware(file, (*key, "middlewares", index), item) for index, item in enumerate(part.middlewares)
        ]
        middlewares += self._memory(part.memory)
        return AgentConfig(
            name=name,
            description=part.description,
            system_prompt=part.system_prompt,
            prompt_variants=part.prompt_variants,
            model=given.model or _model_spec(part.model) or self._model,
            tools=tools,
            tool_sources=[_mcp(file, (*key, "mcp", name), name, server) for name, server in part.mcp.items()],
            shared_tools=part.shared_tools,
            messages=part.messages,
            max_iterations=part.max_iterations,
            max_repeats=part.max_repeats,
            goal_check=file.imports.get((*key, "goal_check")),
            tool_policy=part.tool_policy.model_dump() if part.tool_policy is not None else None,
            rules=tool_rules(file.document, (*key, "rules"), part.rules),
            exit_on_success=part.exit_on_success,
            middlewares=middlewares,
            all_ancestors=part.all_ancestors,
            temperature=part.temperature,
            max_tokens=part.max_tokens,
            timeout=part.timeout if given.timeout is None else given.timeout,
            idle_timeout=part.idle_timeout if given.idle_timeout is None else given.idle_timeout,
            first_token_timeout=(
                part.first_token_timeout if given.first_token_timeout is None else given.first_token_timeout
            ),
            retries=part.retries if given.retries is None else given.retries,
            fallback_model=given.fallback_model or part.fallback_model or None,
            tool_timeout=part.tool_timeout,
            tool_quota=part.tool_quota,
            credentials={name: Secret(value) for name, value in part.credentials.items() if value},
            max_running_subagents=part.max_running_subagents,
            subagent_timeout=part.subagent_timeout,
            output=file.imports.get((*key, "output")),
        )

    def _register_sub_agents(self, agent: Agent, file: _File, key: Key, part: AgentPart) -> None:
        for sub_agent_name, sub_agent_part in part.sub_agents.items():
            sub_agent_key = (*key, "sub_agents", sub_agent_name)
            try:
                agent.register_agent(
                    self._sub_agent(file, sub_agent_key, sub_agent_part, sub_agent_name),
                    name=sub_agent_name,
                    description=sub_agent_part.description,
                    stateless=sub_agent_part.stateless,
                )
            except InvalidArgument:
                raise
            except Exception as error:  # noqa: BLE001 - a user's class may raise anything
                raise file.document.error(sub_agent_key, str(error)) from file.document.cause(error)

    def _remote_tool(self, file: _File, key: Key, part: RemoteToolPart) -> Tool:
        try:
            return RemoteTool(
                part.name,
                part.role,
                registry=self._environment.get("ARCHON_REGISTRY", ""),
                namespace=part.namespace,
                timeout=part.timeout,
                trusted=part.trusted,
            )
        except ArchonError as error:
            raise file.document.error(key, str(error)) from None

    def _memory(self, part: MemoryPart | None) -> list[Middleware]:
        """Returns the middlewares of a long-term memory, which is opened by the first run."""
        if part is None or not part.long_term:
            return []
        half_life = part.half_life * _DAY if part.half_life is not None else None
        names = {field.name for field in fields(MemorySettings)}
        memory = MemoryMiddleware(
            partial(open_memory, self._environment, half_life=half_life),
            MemorySettings(**part.model_dump(include=names)),
        )
        return [memory] if part.window is None else [memory.compaction(part.window, part.compress_at), memory]

    def _sub_agent(self, file: _File, key: Key, part: SubAgentPart, name: str) -> Agent | RemoteAgent:
        if part.role:
            timeout = part.timeout if "timeout" in part.model_fields_set else None
            return RemoteAgent(part.role, description=part.description, timeout=timeout)
        if (other := file.files.get(key)) is not None:
            return self._agent(other, (), other.declaration, other.declaration.name)
        return self._agent(file, key, part, part.name or name)

    def _role(self, document: Document, declaration: AgentFile) -> Role:
        role = declaration.role
        try:
            return Role(
                name=declaration.name,
                system_prompt=declaration.system_prompt or declaration.description or declaration.name,
                description=declaration.description,
                capabilities=[Capability(**capability.model_dump()) for capability in role.capabilities],
                depends_on=[_edge(edge) for edge in role.depends_on],
                all_ancestors=declaration.all_ancestors,
                coordinator=role.coordinator,
                stateful=role.stateful,
                asks_credentials=role.asks_credentials,
                planner=role.planner,
                arbiter=Arbitration(**role.arbiter.model_dump()) if role.arbiter is not None else None,
                profile=_profile(role.profile),
                version=role.version,
                max_tasks=role.max_tasks,
                tags=role.tags,
            )
        except InvalidArgument as error:
            raise document.error(("role",), str(error)) from None


def _blamed(part: AgentPart, error: Exception) -> str:
    """Returns the key of the tools that an error of creating an agent is about."""
    return "shared_tools" if part.shared_tools and "cannot share" in str(error) else "tools"


def _model_spec(part: ModelPart) -> ModelSpec | str | None:
    """Returns the argument for `create_model`; None if the file names no model."""
    first, *others = (name.strip() for name in part.use.split(","))
    spec = ModelSpec(
        first,
        (*others, *part.fallback),
        part.requests_per_minute,
        part.tokens_per_minute,
        part.thinking,
        part.server,
    )
    return part.use if spec == ModelSpec(part.use) else spec


def _imported(document: Document, key: Key, part: Imported, expected: type) -> Any:
    """Imports an object and checks its type: an instance of `expected`, a class of it, or a function."""
    path = part.import_
    imported = _import_object(document, key, path)
    noun = expected.__name__.lower()
    if isinstance(imported, expected):
        if part.params:
            raise document.error((*key, "params"), f"{path} is an instance and takes no parameters")
    elif isinstance(imported, type):
        if not issubclass(imported, expected):
            raise document.error(key, f"{path} is not a {noun}: the class is no {expected.__name__}")
    elif not callable(imported):
        raise document.error(key, f"{path} is not a {noun}: expected a {expected.__name__} or a function")
    return imported


def _output(document: Document, key: Key, declared: str | Mapping[str, Any]) -> TypedOutput | None:
    """Returns the output that a file declares: a JSON Schema, or the import path of a type."""
    imported = _import_object(document, key, declared) if isinstance(declared, str) else declared
    try:
        return TypedOutput.of(imported)
    except InvalidArgument as error:
        raise document.error(key, error.message) from None


def _imported_function(document: Document, key: Key, path: object) -> Any:
    """Imports the function that a parameter names."""
    if not isinstance(path, str) or not re.match(IMPORT_PATTERN, path):
        raise document.error(key, "expected an import path, module:name")
    imported = _import_object(document, key, path)
    if not callable(imported):
        raise document.error(key, f"{path} is not a function")
    return imported


def _import_object(document: Document, key: Key, path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        imported: Any = _import_module(module, document.path.parent)
        for attribute in name.split("."):
            imported = getattr(imported, attribute)
    except (ImportError, AttributeError) as error:
        raise document.error(key, f"cannot import {path}: {error}") from None
    except Exception as error:  # noqa: BLE001 - a module may raise anything
        raise document.error(key, f"cannot import {path}: {type(error).__name__}: {error}") from document.cause(error)
    return imported


def _created(file: _File, key: Key, part: Imported, params: Mapping[str, Any] | None, expected: type) -> Any:
    """Returns the imported object; calls it if it is a class, or if it is a function and there are parameters."""
    imported = file.imports[key]
    if isinstance(imported, expected) or (params is None and not isinstance(imported, type)):
        return imported
    try:
        return imported(**(params or {}))
    except Exception as error:  # noqa: BLE001 - a user's class may raise anything
        why = f"cannot create {part.import_}: {error}"
        raise file.document.error((*key, "params"), why) from file.document.cause(error)


def _tool(file: _File, key: Key, part: Imported) -> Tool:
    tool = _created(file, key, part, part.params, Tool)
    if isinstance(tool, Tool):
        return tool
    if callable(tool) and not isinstance(tool, type):
        try:
            return FunctionTool(tool)
        except InvalidArgument as error:
            raise file.document.error(key, str(error)) from None
    raise file.document.error(key, f"{part.import_} is not a tool: expected a Tool or a function")


def _mcp(file: _File, key: Key, name: str, part: McpPart) -> McpToolSource:
    try:
        return McpToolSource(
            name,
            command=part.command,
            args=part.args,
            env=part.env,
            cwd=str(file.document.path.parent / part.cwd) if part.command else None,
            url=part.url,
            headers=part.headers,
            seconds=part.timeout,
            connect_seconds=part.connect_timeout,
            trusted=part.trusted,
            may_ask=part.may_ask,
        )
    except ArchonError as error:
        raise file.document.error(key, str(error)) from None


def _middleware(file: _File, key: Key, part: Imported) -> Middleware:
    params = {name: file.imports.get((*key, "params", name), value) for name, value in (part.params or {}).items()}
    middleware = _created(file, key, part, params, Middleware)
    if not isinstance(middleware, Middleware):
        raise file.document.error(key, f"{part.import_} is not a middleware")
    return middleware


def _import_module(name: str, folder: Path) -> Any:
    """Imports a module from the folder or from the Python path."""
    path_entry = str(folder.resolve())
    sys.path.insert(0, path_entry)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(path_entry)


def _profile(part: ProfilePart | None) -> Profile | None:
    if part is None:
        return None
    return Profile(
        part.instructions,
        round(part.expected_seconds * 1000),
        round(part.expected_cost * 1_000_000),
        part.expected_quality,
        {name: ",".join(roles) for name, roles in part.message_types.items()},
        part.prompt_template,
    )


def _edge(part: EdgePart) -> DependsOn | str:
    policy = PropagationPolicy(part.policy)
    return part.role if policy is PropagationPolicy.FINAL_RESPONSE_ONLY else DependsOn(part.role, policy)
