"""Files in the results of tools: what a model reads of them, and their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from archon_mesh.tools import Audio, EmbeddedResource, Image, Media, ToolExecutionEngine, ToolRegistry, ToolResult, tool
from archon_mesh.tools import output_limit as output_limit_module
from archon_mesh.tools.output_limit import limited


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (Image(b"123"), "[image/png, 3 bytes]"),
        (Audio(b"12"), "[audio/wav, 2 bytes]"),
        (Media(b"1", "application/pdf"), "[application/pdf, 1 bytes]"),
        (EmbeddedResource("ü".encode(), "text/markdown", "note://1"), "ü"),
        (EmbeddedResource(b'{"a": 1}', "application/json", "note://1"), '{"a": 1}'),
        (EmbeddedResource(b"text", "application/zip", "note://1"), "[application/zip, 4 bytes: note://1]"),
        (EmbeddedResource(b"\xff", "text/plain", "note://1"), "[text/plain, 1 bytes: note://1]"),
    ],
)
def test_model_reads_texts_and_the_labels_of_other_files(file: Media, text: str) -> None:
    assert ToolResult(file).text == text


def test_among_yields_the_files_of_a_class() -> None:
    image, audio = Image(b"1"), Audio(b"2")
    assert list(Media.among([image, "text", audio])) == [image, audio]
    assert list(Image.among([image, "text", audio])) == [image]
    assert list(Audio.among(audio)) == [audio]
    assert list(Media.among("text")) == []


async def test_tool_returns_files_beside_texts() -> None:
    @tool
    def report() -> list[Any]:
        """Returns a text, a sound and a resource."""
        return ["a text", Audio(b"1"), EmbeddedResource(b"a note", uri="note://1")]

    assert "returns" not in report.parameters_schema
    assert report.result_schema is not None
    result = await ToolExecutionEngine(ToolRegistry([report])).execute_tool_call("report")
    assert result.content == ["a text", Audio(b"1"), EmbeddedResource(b"a note", uri="note://1")]
    assert result.text == '["a text", "[audio/wav, 1 bytes]", "a note"]'


async def test_sound_of_an_undeclared_type_is_refused() -> None:
    @tool(produces=["image/*"])
    def speak() -> Audio:
        """Speaks."""
        return Audio(b"1")

    assert speak.result_schema is None, "a file has no JSON Schema"
    result = await ToolExecutionEngine(ToolRegistry([speak])).execute_tool_call("speak")
    assert not result.ok
    assert "returned audio/wav; it declares image/*" in result.error_message


def test_resources_that_a_model_reads_have_the_limit_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_limit_module, "MAX_OUTPUT_BYTES", 200)
    text, binary = EmbeddedResource(b"x" * 150, uri="note://1"), EmbeddedResource(b"x" * 300, "a/b", "note://2")
    kept, _ = limited([text, binary, text], None)
    assert kept == [text, binary, "[text/plain, 150 bytes: note://1] left out: the limit of the tool is 200 bytes"]
