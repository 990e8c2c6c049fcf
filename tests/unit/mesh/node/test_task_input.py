"""What a model reads of a task whose input is more than text."""

from __future__ import annotations

import pytest

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument
from archon_mesh.node.task_input import query_of
from tests.fixtures.fake_link import FakeLink

Part = common_pb2.Part


def task(*parts: Part) -> TaskContext:
    return TaskContext(
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
        (Part(url="https://example.com/a.png", media_type="image/png"), "[file, image/png: https://example.com/a.png]"),
        (Part(), ""),
    ],
)
def test_texts_values_and_urls_are_read(part: Part, read: str) -> None:
    assert query_of(task(Part(text="Look."), part)) == "\n\n".join(filter(None, ("Look.", read)))


@pytest.mark.parametrize("kind", ["image/png", "audio/wav", "application/pdf", ""])
def test_a_file_that_no_model_takes_is_refused(kind: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"reads text, not a\.bin \({kind or 'application/octet-stream'}, 3 b"):
        query_of(task(Part(text="Look."), Part(raw=b"abc", filename="a.bin", media_type=kind)))
