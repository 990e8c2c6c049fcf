"""The lists of tools and prompts, in pages, and the prompts: the templates of good inputs that roles have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from archon_services.gateway.agents import MeshAgent
from archon_services.gateway.mcp.catalogue import MAX_DESCRIPTION, Catalogue
from archon_services.gateway.mcp.inputs import render, variables_of
from archon_services.gateway.mcp.parts import RoomParts

PAGE: Final = 200
"""Entries of a page."""

T = TypeVar("T")


class Lists:
    """Serves the lists for the caller of each request: the roles of its tenant."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts

    def add_to(self, server: Server[Any]) -> None:
        """Adds the handlers to a server."""
        server.add_request_handler("tools/list", types.PaginatedRequestParams, self._tools)
        server.add_request_handler("prompts/list", types.PaginatedRequestParams, self._prompts)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, self._prompt)

    async def _tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams
    ) -> types.ListToolsResult:
        catalogue = Catalogue(await self._parts.mesh_of_caller())
        page, cursor = page_of([tool.listed for tool in catalogue.tools], params.cursor, lambda tool: tool.name)
        return types.ListToolsResult(tools=list(page), next_cursor=cursor)

    async def _prompts(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams
    ) -> types.ListPromptsResult:
        agents = _with_templates(await self._parts.mesh_of_caller())
        page, cursor = page_of(agents, params.cursor, lambda agent: agent.name)
        return types.ListPromptsResult(prompts=[_prompt_of(agent) for agent in page], next_cursor=cursor)

    async def _prompt(
        self, context: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        agents = _with_templates(await self._parts.mesh_of_caller())
        agent = next((each for each in agents if each.name == params.name), None)
        if agent is None:
            raise MCPError(INVALID_PARAMS, f"unknown prompt {params.name[:100]!r}")
        text = f"Have the role {agent.name} do this: {render(agent.prompt_template, params.arguments or {})}"
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=agent.description or None, messages=[message])


def page_of(entries: Sequence[T], cursor: str | None, name_of: Any) -> tuple[Sequence[T], str | None]:
    """Returns the entries after a cursor, and the next cursor: the name of the last entry, so that a page neither
    repeats nor leaves out entries if others come and go. Raises MCPError for a cursor of no such entry."""
    start = 0
    if cursor is not None:
        names = [name_of(entry) for entry in entries]
        if cursor not in names:
            raise MCPError(INVALID_PARAMS, "the cursor is not from the page before, or its entry is gone")
        start = names.index(cursor) + 1
    page = entries[start : start + PAGE]
    return page, name_of(page[-1]) if start + PAGE < len(entries) else None


def _with_templates(mesh: MeshAgent) -> Sequence[MeshAgent]:
    return [agent for agent in mesh.roles if agent.prompt_template]


def _prompt_of(agent: MeshAgent) -> types.Prompt:
    return types.Prompt(
        name=agent.name,
        description=(agent.description or agent.prompt_template)[:MAX_DESCRIPTION],
        arguments=[types.PromptArgument(name=name, required=True) for name in variables_of(agent.prompt_template)],
    )
