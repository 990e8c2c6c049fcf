"""A tool of an MCP server as a tool of an agent, and the conversion of its results."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from archon.errors import InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS
from archon_mesh.core.media import Audio, EmbeddedResource, Media
from archon_mesh.tools.image import Image
from archon_mesh.tools.mcp.listing import MAX_DESCRIPTION, for_models, validator_of, without_patterns
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.tool import Tool

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool


class Caller(Protocol):
    """Calls a tool of a server."""

    async def call(self, tool_name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Returns the result. Raises Unavailable, DeadlineExceeded, InvalidArgument or UnknownFailure."""
        ...


class McpTool(Tool):
    """A tool of an MCP server. Its hints decide, as far as they restrict: one that may destroy is dangerous, unless its
    author trusts the server; one that says so may be repeated."""

    def __init__(self, caller: Caller, listed: ListedTool, *, seconds: float, trusted: bool) -> None:
        self.name = listed.name
        self.description = (listed.description or listed.title or "")[:MAX_DESCRIPTION]
        self.parameters_schema = for_models(listed.input_schema)
        self.result_schema = listed.output_schema
        self.timeout = seconds
        hints = listed.annotations
        is_read_only = hints is not None and hints.read_only_hint is True
        # Few servers give hints: a tool without any is not taken for one that destroys, unlike in the specification.
        self.dangerous = not trusted and not is_read_only and hints is not None and hints.destructive_hint is True
        self.idempotent = is_read_only or (hints is not None and hints.idempotent_hint is True)
        self._caller = caller
        self._checked = without_patterns(listed.input_schema)
        self._own_validator: Any = None

    @override
    def validate_args(self, args: Mapping[str, Any]) -> str | None:
        if self._own_validator is None:
            from referencing import Registry

            registry: Any = Registry()  # no document but the schema is read
            self._own_validator = validator_of(self._checked)(self._checked, registry=registry)
        problems = [
            f"{'.'.join(map(str, error.absolute_path)) or '(all)'}: {error.message[:500]}"
            for _, error in zip(range(10), self._own_validator.iter_errors(dict(args)), strict=False)
        ]
        return f"invalid arguments for tool {self.name}: {'; '.join(problems)}" if problems else None

    @override
    def convert_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        if (message := self.validate_args(args)) is not None:
            raise InvalidArgument(message, kind=INVALID_PARAMETERS)
        return {"arguments": dict(args)}  # a name of a server's parameter may be any

    @override
    async def execute(self, **kwargs: Any) -> ToolResult:
        """Calls the tool. Raises the errors of Caller.call."""
        result = await self._caller.call(self.name, kwargs["arguments"])
        return ToolResult.error(_failure(result)) if result.is_error else ToolResult.success(content_of(result))


def _failure(result: CallToolResult) -> str:
    """Returns the text of a failed call: its content, and its structured content, which may have the details."""
    content = content_of(result)
    parts = [content if isinstance(content, str) else str(content)]
    if result.structured_content is not None:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return "\n\n".join(filter(None, parts)) or "the tool failed"


def content_of(result: CallToolResult) -> Any:
    """Returns the content of a result: structured content as it is, else texts and files in order."""
    import mcp_types as types

    parts: list[Any] = []
    for block in result.content:
        match block:
            case types.TextContent():
                parts.append(block.text)
            case types.ImageContent():
                parts.append(_file(Image, block.data, block.mime_type))
            case types.AudioContent():
                parts.append(_file(Audio, block.data, block.mime_type))
            case types.EmbeddedResource():
                resource = block.resource
                if isinstance(resource, types.TextResourceContents):
                    parts.append(resource.text)
                else:
                    kind = resource.mime_type or "application/octet-stream"
                    made: Callable[[bytes, str], Media]
                    made = Image if kind.startswith("image/") else partial(EmbeddedResource, uri=resource.uri)
                    parts.append(_file(made, resource.blob, kind))
            case _:
                parts.append(f"[{block.name}: {block.uri}]")
    files = list(Media.among(parts))
    if result.structured_content is not None and not result.is_error:
        return [result.structured_content, *files] if files else result.structured_content
    if files:
        return parts if len(parts) > 1 else files[0]
    return "\n".join(parts)


def _file(kind: Callable[[bytes, str], Media], data: str, media_type: str) -> Media | str:
    try:
        return kind(base64.b64decode(data, validate=True), media_type)
    except (ValueError, binascii.Error):
        return f"[{media_type}: not base64]"
