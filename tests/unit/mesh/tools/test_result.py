"""Results of tool calls: their content, and metadata that is plain JSON data."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.tools import ToolResult, ToolResultStatus
from archon_mesh.tools.image import Image


def test_value_is_text_or_json() -> None:
    assert [ToolResult(value).text for value in ("a", {"b": 1}, None, [1, "ü"])] == ["a", '{"b": 1}', "", '[1, "ü"]']


def test_failed_result_has_its_message_as_content() -> None:
    failed, late = ToolResult.error("no", {"k": [1, {"n": None}]}), ToolResult.timeout("late")
    assert (failed.status, failed.content, failed.error_message, failed.text) == ("error", "no", "no", "no")
    assert (late.status, late.content, late.error_message) == (ToolResultStatus.TIMEOUT, "late", "late")
    assert ToolResult(None, ToolResultStatus.ERROR).content == "error", "never None"
    assert ToolResult("why", ToolResultStatus.ERROR).error_message == "why"


@pytest.mark.parametrize(
    ("metadata", "where"),
    [
        ({"error": ValueError("x")}, r"metadata\['error'\] is ValueError"),
        ({"a": [1, {"b": {1, 2}}]}, r"metadata\['a'\]\[1\]\['b'\] is set"),
        ({"image": Image(b"x")}, "is Image, not plain JSON data"),
        ({1: 2}, "the key 1 of metadata is not a text"),
        ("text", "expected a mapping, got str"),
    ],
)
def test_metadata_that_is_not_plain_json_is_refused(metadata: Any, where: str) -> None:
    with pytest.raises(InvalidArgument, match=where):
        ToolResult.success(1, metadata)


def test_metadata_that_contains_itself_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises(InvalidArgument, match="nested more than 20 levels deep"):
        ToolResult.error("x", circle)
