"""Values of tools, prompts and resources as MCP has them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from archon_mesh.core.media import Audio, EmbeddedResource, Media
from archon_mesh.tools.image import Image
from archon_mesh.tools.result import ToolResult

if TYPE_CHECKING:
    import mcp_types as types


def call_result(result: ToolResult) -> types.CallToolResult:
    """Returns the result of a tool: the items of a list with files in order, any other value as text, and an object
    also as structured content."""
    import mcp_types as types

    if not result.ok:
        return types.CallToolResult(content=[types.TextContent(text=result.error_message)], is_error=True)
    content = result.content
    if any(True for _ in Media.among(content)):
        items = content if isinstance(content, (list, tuple)) else (content,)
        return types.CallToolResult(content=[block(item) for item in items])
    structured = content if isinstance(content, dict) else None
    return types.CallToolResult(content=[types.TextContent(text=result.text)], structured_content=structured)


def block(value: object) -> types.ContentBlock:
    """Returns a file as content of its kind, any other value as text."""
    import mcp_types as types

    if isinstance(value, Image):
        return types.ImageContent(data=_base64(value.data), mime_type=value.media_type)
    if isinstance(value, Audio):
        return types.AudioContent(data=_base64(value.data), mime_type=value.media_type)
    if isinstance(value, EmbeddedResource):
        return types.EmbeddedResource(resource=resource_contents(value.uri, value))
    if isinstance(value, Media):  # the protocol has no other files without a URI
        return types.TextContent(text=str(value))
    return types.TextContent(text=ToolResult(value).text)


def resource_contents(uri: str, value: Media) -> types.TextResourceContents | types.BlobResourceContents:
    """Returns the content of a resource, as text if its type says so."""
    import mcp_types as types

    text = EmbeddedResource(value.data, value.media_type).text
    if text is not None:
        return types.TextResourceContents(uri=uri, mime_type=value.media_type, text=text)
    return types.BlobResourceContents(uri=uri, mime_type=value.media_type, blob=_base64(value.data))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
