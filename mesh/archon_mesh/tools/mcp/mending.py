"""Results of servers, mended before the package reads them: it refuses a whole result for one entry that breaks the
protocol. A tool that cannot be read costs that tool, a block of an unknown kind is kept as text."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

_log = logging.getLogger(__name__)

MAX_BLOCK: Final = 4_000
"""Characters of a block of an unknown kind that are kept."""

_KINDS: Final = ("text", "image", "audio", "resource", "resource_link")


def mend(server: str, result: dict[str, Any]) -> None:
    """Mends the result of a request in place: a list of tools, or the content of a tool's result."""
    if isinstance(tools := result.get("tools"), list):
        result["tools"] = [tool for each in tools if (tool := _tool(server, each)) is not None]
    if isinstance(content := result.get("content"), list):
        result["content"] = [_block(each) for each in content]
        result.setdefault("resultType", "complete")  # the default of the protocol, which the package does not know


def _tool(server: str, tool: Any) -> dict[str, Any] | None:
    """Returns a tool that the package can read, or None."""
    from mcp_types import Tool
    from pydantic import ValidationError

    if not isinstance(tool, Mapping) or not isinstance(name := tool.get("name"), str):
        _log.warning("MCP server %s lists a tool without a name, which is left out: %.200r", server, tool)
        return None
    schema = tool.get("inputSchema")
    # The package refuses a result that breaks the output schema, and keeps the tool's effects from the model.
    mended = {
        **{key: value for key, value in tool.items() if key != "outputSchema"},
        "inputSchema": {"type": "object", **schema} if isinstance(schema, Mapping) else {"type": "object"},
    }
    try:
        Tool.model_validate(mended, by_name=False)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        _log.warning("MCP server %s: tool %.100r is read without its invalid %s: %s", server, name, field, first["msg"])
        description = tool.get("description")
        kept = {"description": description} if isinstance(description, str) else {}
        return {"name": name, "inputSchema": mended["inputSchema"], **kept}
    return mended


def _block(block: Any) -> dict[str, Any]:
    if isinstance(block, Mapping) and block.get("type") in _KINDS:
        return {**block, "text": block.get("text") or ""} if block["type"] == "text" else dict(block)
    text = block if isinstance(block, str) else json.dumps(block, ensure_ascii=False)
    return {"type": "text", "text": text[:MAX_BLOCK]}
