"""Plain values and their messages."""

from __future__ import annotations

import pytest

from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument
from archon.types import Budget, MemoryRef, Part, TaskRef, Usage
from archon.types.part import json_part, to_messages, to_parts

PARTS = [
    Part(text="hello"),
    Part(text=""),
    Part(raw=b"\x00\xff", filename="a.bin", media_type="application/x-a"),
    Part(url="https://example.org/a.png", media_type="image/png", metadata={"org.example/a": "b"}),
    Part(data_json="[1, null]", media_type="application/json"),
]


@pytest.mark.parametrize(
    "value",
    [
        *PARTS,
        Budget(),
        Budget(1_000, 2_000_000, 0.25, 3, 7),
        Usage(1, 2, 3, 4, 5, 6, 7, estimated=True),
        TaskRef("task", "run", 3, 9),
        MemoryRef("scope", "role", 2, "run", 5),
    ],
    ids=repr,
)
def test_a_value_is_read_back_from_its_message(value: Part | Budget | Usage | TaskRef | MemoryRef) -> None:
    proto = value.proto
    again = type(proto).FromString(proto.SerializeToString())
    assert type(value).from_proto(again) == value  # type: ignore[arg-type]


def test_lists_of_parts_keep_their_order() -> None:
    assert to_parts(to_messages(PARTS)) == tuple(PARTS)


@pytest.mark.parametrize("fields", [{}, {"text": "a", "url": "b"}, {"raw": b"", "data_json": "1"}])
def test_a_part_has_exactly_one_content(fields: dict[str, str | bytes]) -> None:
    with pytest.raises(InvalidArgument, match="exactly one"):
        Part(**fields)  # type: ignore[arg-type]


def test_a_part_of_a_later_version_reads_as_an_empty_text() -> None:
    assert Part.from_proto(common_pb2.Part(filename="a")) == Part(text="", filename="a")


@pytest.mark.parametrize("field", ["max_tokens", "max_cost_micro_usd", "max_time", "max_depth", "max_model_calls"])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_limit_is_no_negative_number(field: str, value: float) -> None:
    with pytest.raises(InvalidArgument, match=field):
        Budget(**{field: value})  # type: ignore[arg-type]


def test_negative_counts_of_an_agent_read_as_zero() -> None:
    assert Usage.from_proto(common_pb2.Usage(input_tokens=-1, tool_calls=2)) == Usage(tool_calls=2)


def test_json_part_has_its_media_type() -> None:
    part = json_part('{"a": "\ud800"}')
    assert (part.data_json, part.media_type) == ('{"a": "?"}', "application/json")


def test_negative_limits_of_a_budget_read_as_none() -> None:
    assert Budget.from_proto(common_pb2.Budget(max_tokens=-(2**62), max_depth=2)) == Budget(max_depth=2)
