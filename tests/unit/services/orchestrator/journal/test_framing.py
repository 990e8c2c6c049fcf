"""Stored events are framed as field 1 of a message, and broken framing raises DataLoss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon_services.orchestrator.journal.framing import as_field, events_in, frame

events = st.lists(st.binary(max_size=300), max_size=8)
SIZES = [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152]


@given(events)
def test_framed_events_are_read_back(contents: list[bytes]) -> None:
    assert events_in(b"".join(map(frame, contents))) == contents


@pytest.mark.parametrize("size", SIZES)
def test_an_event_of_any_size_is_read_back(size: int) -> None:
    content = b"\x0a" * size
    assert events_in(frame(content) + frame(b"after")) == [content, b"after"]


@given(st.lists(st.text(max_size=200), max_size=5))
def test_framed_events_are_a_watch_response(reasons: list[str]) -> None:
    response = pb.WatchRunResponse()
    for seq, reason in enumerate(reasons, 1):
        response.events.add(run_id=reason, seq=seq)
    data = response.SerializeToString()
    assert b"".join(frame(event.SerializeToString()) for event in response.events) == data
    assert [run_pb2.RunEvent.FromString(event) for event in events_in(data)] == list(response.events)


@given(events, st.integers(1, 15))
def test_another_field_number_changes_the_tags_alone(contents: list[bytes], number: int) -> None:
    data = b"".join(map(frame, contents))
    framed = as_field(data, number)
    tag = bytes([(number << 3) | 2])
    assert framed == b"".join(tag + frame(content)[1:] for content in contents)
    assert as_field(data, 1) == data


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5), st.data())
def test_truncated_bytes_raise_data_loss(contents: list[bytes], data: st.DataObject) -> None:
    framed = [frame(content) for content in contents]
    whole = b"".join(framed)
    ends = {sum(map(len, framed[:number])) for number in range(len(framed) + 1)}
    cut = data.draw(st.sampled_from([size for size in range(len(whole)) if size not in ends]))
    for read in (events_in, lambda truncated: as_field(truncated, 3)):
        with pytest.raises(DataLoss):
            read(whole[:cut])


@given(events, st.binary(min_size=1, max_size=20).filter(lambda foreign: foreign[0] != 0x0A))
def test_foreign_bytes_raise_data_loss(contents: list[bytes], foreign: bytes) -> None:
    framed = b"".join(map(frame, contents))
    for data in (foreign, framed + foreign):
        with pytest.raises(DataLoss):
            events_in(data)
        with pytest.raises(DataLoss):
            as_field(data, 2)


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_raise_data_loss(data: bytes) -> None:
    try:
        contents = events_in(data)
    except DataLoss:
        return
    assert sum(map(len, contents)) <= len(data)


def test_a_length_without_end_raises_data_loss() -> None:
    with pytest.raises(DataLoss):
        events_in(b"\x0a" + b"\xff" * 20)
