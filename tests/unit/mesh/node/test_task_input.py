"""What a model reads of a task whose input is more than text."""

from __future__ import annotations

import pytest

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage
from archon_mesh.node.task_input import query_of
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.media import PNG, in_base64

Part = common_pb2.Part


def task(*parts: Part) -> TaskContext:
    return TaskContext.from_proto(
        common_pb2.TaskRef(task_id="t", attempt=1), agent_pb2.AssignTask(input=parts), FakeLink([]), role="a"
    )


@pytest.mark.parametrize(
    ("part", "read"),
    [
        (Part(text="plain"), "plain"),
        (Part(data_json='{"a": 1}'), '{"a": 1}'),
        (Part(data_json='{"a": 1}', media_type="application/vnd.archon.workflow+json"), ""),
        (Part(raw=b"# Title", filename="a.md", media_type="text/markdown; charset=utf-8"), "a.md:\n# Title"),
        (Part(raw=b'{"a": 1}', media_type="application/json"), 'file:\n{"a": 1}'),
        (Part(raw=b"\xff", filename="a.txt", media_type="text/plain"), "a.txt:\n\ufffd"),
        (Part(raw=b"<svg/>", filename="a.svg", media_type="image/svg+xml"), "a.svg:\n<svg/>"),
        (Part(url="https://example.com/a"), "[file: https://example.com/a]"),
        (Part(url="https://example.com/a", media_type="text/html"), "[file, text/html: https://example.com/a]"),
        (Part(), ""),
    ],
)
def test_texts_values_and_urls_are_read(part: Part, read: str) -> None:
    query = query_of(task(Part(text="Look."), part))
    assert query == ChatMessage("user", "\n\n".join(filter(None, ("Look.", read))))


@pytest.mark.parametrize(
    ("part", "file"),
    [
        (Part(raw=PNG, filename="a.png", media_type="image/png"), Media(PNG, "image/png", name="a.png")),
        (Part(raw=b"abc"), Media(b"abc")),
        (Part(raw=b"abc", media_type="Audio/X-Wav; rate=1"), Media(b"abc", "audio/wav")),
        (
            Part(url="https://example.com/a.pdf", media_type="application/pdf"),
            Media.at("https://example.com/a.pdf", "application/pdf"),
        ),
        (Part(url=f"data:image/png;base64,{in_base64(PNG)}", media_type="image/png"), Media(PNG, "image/png")),
    ],
)
def test_other_files_become_files_of_the_message(part: Part, file: Media) -> None:
    query = query_of(task(part, Part(text="Look.")))
    assert query == ChatMessage("user", "Look.", files=[file])


def test_what_is_expected_follows_the_text() -> None:
    assigned = agent_pb2.AssignTask(
        input=[Part(raw=PNG, media_type="image/png")], expected_output="a noun", refusal="no"
    )
    query = query_of(
        TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]), role="a")
    )
    assert query.content == "Expected output: a noun\n\nAn earlier answer was refused: no"
    assert len(query.files) == 1


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com/a.png", "a.png"])
def test_a_file_at_another_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="expected http://, https:// or data:") as raised:
        query_of(task(Part(text="Look."), Part(url=url, media_type="image/png")))
    assert [violation.field for violation in raised.value.field_violations] == ["input[1]"]
