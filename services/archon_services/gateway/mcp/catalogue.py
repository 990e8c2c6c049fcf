"""The tools of the room: one for each role, one for the mesh as a whole, those that agents share, and one that reads
a run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import mcp_types as types

from archon.json_text import json_object
from archon.registry import Tool
from archon_services.gateway.agents import MeshAgent
from archon_services.gateway.mcp.inputs import goal_schema

MESH: Final = "mesh_run"
"""The tool that has the mesh choose the roles. A role's name has no underscore."""

READ: Final = "run_get"
"""The tool that waits for a run and reads it."""

BETWEEN: Final = "__"
"""Stands between the role and the name of a tool that it shares."""

MAX_NAME: Final = 64
"""Characters of a name: clients pass names to models whose providers take no more."""

MAX_TOOLS: Final = 2_000
MAX_DESCRIPTION: Final = 4_000
MAX_SCHEMA: Final = 32 * 1024
"""Tools of a list, characters of a description, and of a schema as JSON."""

_USUAL: Final = re.compile(r"[A-Za-z0-9_-]+")
_RUN_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "run_id": {"type": "string", "description": "The id of the run."},
        "wait": {"type": "number", "minimum": 0, "maximum": 600, "description": "Seconds to wait for its end."},
    },
    "required": ["run_id"],
}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of the room. `role` is the role that executes it, empty for the mesh as a whole; `shared` is the name of
    a tool that the role shares."""

    kind: Literal["role", "shared", "read"]
    listed: types.Tool
    role: str = ""
    shared: str = ""

    @property
    def name(self) -> str:
        """The name by which clients call it."""
        return self.listed.name


class Catalogue:
    """The tools for one caller, by the roles of its tenant."""

    def __init__(self, mesh: MeshAgent) -> None:
        tools = [_role_tool(agent) for agent in mesh.roles]
        if mesh.roles:
            tools.append(_mesh_tool(mesh))
        tools += [_shared_tool(agent.name, tool) for agent in mesh.roles for tool in agent.shared_tools]
        tools.append(OfferedTool("read", types.Tool(name=READ, description=_READ_TEXT, input_schema=dict(_RUN_SCHEMA))))
        self._tools = {tool.name: tool for tool in tools[:MAX_TOOLS]}

    @property
    def tools(self) -> Sequence[OfferedTool]:
        """All tools, in the order of their list."""
        return tuple(self._tools.values())

    @property
    def digest(self) -> str:
        """A text that differs if the list differs."""
        listed = [tool.listed.model_dump(mode="json", exclude_none=True) for tool in self._tools.values()]
        return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()

    def find(self, name: str) -> OfferedTool | None:
        """Returns the tool of a name. Models mistake dashes for underscores, and leave out the role of a shared tool:
        such a name counts if it is the name of one tool alone."""
        if (tool := self._tools.get(name)) is not None:
            return tool
        alike = [tool for tool in self._tools.values() if _alike(name) in (_alike(tool.name), _alike(tool.shared))]
        return alike[0] if len(alike) == 1 else None


_READ_TEXT: Final = (
    "Reads a run of the mesh that was begun before, by its id: its answer if it has ended, else its state. Waits for "
    "its end if asked to."
)


def tool_name(role: str, shared: str) -> str:
    """Returns the name of a shared tool for clients: unique, of usual characters, and not too long."""
    plain = f"{role}{BETWEEN}{shared}"
    if _USUAL.fullmatch(plain) and len(plain) <= MAX_NAME:
        return plain
    digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', plain)[: MAX_NAME - 9]}-{digest}"


def _alike(name: str) -> str:
    return name.replace("-", "_").lower()


def _role_tool(agent: MeshAgent) -> OfferedTool:
    about = agent.description or f"The role {agent.name} of a mesh of agents."
    if agent.capabilities:
        about += f"\n\nCapabilities: {', '.join(each.name or each.id for each in agent.capabilities)}."
    listed = types.Tool(
        name=agent.name,
        description=about[:MAX_DESCRIPTION],
        input_schema=goal_schema(agent.prompt_template),
        output_schema=_output_schema(agent.output_schema_json),
    )
    return OfferedTool("role", listed, agent.name)


def _mesh_tool(mesh: MeshAgent) -> OfferedTool:
    roles = ", ".join(role.name for role in mesh.roles[:50])
    about = f"Has the mesh answer a task: it chooses the roles, and makes a plan if that takes several steps. {roles}."
    listed = types.Tool(name=MESH, description=about[:MAX_DESCRIPTION], input_schema=goal_schema(""))
    return OfferedTool("role", listed)


def _shared_tool(role: str, tool: Tool) -> OfferedTool:
    schema = json_object(tool.input_schema_json[:MAX_SCHEMA]) or {}
    listed = types.Tool(
        name=tool_name(role, tool.name),
        title=tool.title or None,
        description=(tool.description or f"A tool of the role {role}.")[:MAX_DESCRIPTION],
        input_schema={"properties": {}, **schema, "type": "object"},
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )
    return OfferedTool("shared", listed, role, tool.name)


def _output_schema(text: str) -> dict[str, Any] | None:
    """Returns the schema of a role's answers, if clients of all revisions take it: the schema of an object."""
    schema = json_object(text) if len(text) <= MAX_SCHEMA else None
    return dict(schema) if schema is not None and schema.get("type") == "object" else None
