"""Media types that tools accept and produce."""

from __future__ import annotations

from typing import Any

import pytest

from archon_mesh.tools import ToolExecutionEngine, ToolRegistry, ToolResult, tool
from archon_mesh.tools.image import Image


async def call(content: Any, produces: list[str]) -> ToolResult:
    @tool(produces=produces)
    def give() -> Any:
        """Gives."""
        return content

    return await ToolExecutionEngine(ToolRegistry([give])).execute_tool_call("give")


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("data:image/png;base64,AAAA", None),
        ("data:text/plain,hello", "text/plain is not accepted; image/*, application/pdf is"),
        ("data:application/pdf;base64,AAAA", None),
        ("data:,hello", "text/plain is not accepted"),
        ("no file at all", None),
        ({"nested": ["data:video/mp4;base64,AAAA"]}, "video/mp4 is not accepted"),
    ],
)
async def test_file_of_another_type_is_an_invalid_argument(file: Any, why: str | None) -> None:
    @tool(accepts=["image/*", "application/pdf"])
    def look(file: Any) -> str:
        """Looks."""
        return "seen"

    result = await ToolExecutionEngine(ToolRegistry([look])).execute_tool_call("look", {"file": file})
    assert result.ok == (why is None)
    if why is not None:
        assert why in result.error_message
        assert result.metadata["kind"] == "tool.invalid_parameters"


@pytest.mark.parametrize(
    ("content", "produces", "ok"),
    [
        ("a,b", ["text/csv"], True),
        ("{}", ["application/json"], True),
        ("text", ["image/png"], False),
        (Image(b"x"), ["image/*"], True),
        (Image(b"x", "image/gif"), ["image/png"], False),
        ([Image(b"x"), "with a text"], ["image/png"], True),
        ({"a": 1}, ["application/json"], True),
        ({"a": 1}, ["text/plain"], False),
        ({"a": 1}, [], True),
    ],
)
async def test_result_of_another_type_is_an_error(content: Any, produces: list[str], ok: bool) -> None:
    result = await call(content, produces)
    assert result.ok == ok
    if not ok:
        assert f"it declares {', '.join(produces)}" in result.error_message
