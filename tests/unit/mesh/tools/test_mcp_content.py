"""The content of results of MCP servers."""

from __future__ import annotations

import base64
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from archon_mesh.tools import Audio, Image
from archon_mesh.tools import EmbeddedResource as Resource
from archon_mesh.tools.mcp.mending import mend
from archon_mesh.tools.mcp.tool import content_of


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_sounds_images_and_resources_of_a_server_are_files() -> None:
    result = CallToolResult(
        content=[
            TextContent(text="a text"),
            ImageContent(data=encoded(b"1"), mime_type="image/png"),
            AudioContent(data=encoded(b"2"), mime_type="audio/mpeg"),
            EmbeddedResource(resource=TextResourceContents(uri="note://1", text="a note")),
            EmbeddedResource(
                resource=BlobResourceContents(uri="note://2", blob=encoded(b"3"), mime_type="application/zip")
            ),
            EmbeddedResource(resource=BlobResourceContents(uri="note://3", blob=encoded(b"4"), mime_type="image/gif")),
        ]
    )
    assert content_of(result) == [
        *("a text", Image(b"1"), Audio(b"2", "audio/mpeg"), "a note"),
        *(Resource(b"3", "application/zip", "note://2"), Image(b"4", "image/gif")),
    ]


def test_result_without_its_type_is_complete() -> None:
    results: list[dict[str, Any]] = [{"content": []}, {"content": [], "resultType": "input_required"}, {"tools": []}]
    for result in results:
        mend("server", result)
    assert [result.get("resultType") for result in results] == ["complete", "input_required", None]


def test_file_of_a_server_that_is_not_base64_is_a_note() -> None:
    result = CallToolResult(content=[AudioContent(data="no base64", mime_type="audio/wav")])
    assert content_of(result) == "[audio/wav: not base64]"
