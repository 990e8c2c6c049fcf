"""Times, parts and policies between Python and protobuf."""

from __future__ import annotations

import math

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from archon import wire
from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument, MessageTooLarge
from archon.propagation import PropagationPolicy
from archon.surrogates import without_surrogates


@given(st.integers(-(10**15), 10**15))
def test_a_duration_keeps_whole_microseconds(micros: int) -> None:
    message = wire.duration(micros / 1e6)
    assert message.ToMicroseconds() == micros
    assert wire.to_seconds(message) == micros / 1e6


@given(st.floats(0, 4e9))
def test_a_timestamp_is_rounded_to_a_microsecond(seconds: float) -> None:
    message = Timestamp()
    wire.set_seconds(message, seconds)
    assert 0 <= message.nanos < 10**9
    assert abs(wire.to_seconds(message) - seconds) <= 1e-6


@pytest.mark.parametrize(
    ("seconds", "whole", "nanos"),
    [(0.9999999, 1, 0), (-0.9999999, -1, 0), (1.5, 1, 500_000_000), (-1.5, -1, -500_000_000), (0.0, 0, 0)],
)
def test_seconds_and_nanoseconds_have_one_sign(seconds: float, whole: int, nanos: int) -> None:
    message = Duration()
    wire.set_seconds(message, seconds)
    assert (message.seconds, message.nanos) == (whole, nanos)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e10])
def test_a_duration_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidArgument):
        wire.duration(seconds)


@pytest.mark.parametrize("field", [Duration, Timestamp])
@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e20, -1e20])
def test_seconds_that_no_field_holds_are_refused(seconds: float, field: type[Duration | Timestamp]) -> None:
    with pytest.raises(InvalidArgument, match="is not a valid number of seconds"):
        wire.set_seconds(field(), seconds)


def test_a_text_becomes_one_part_and_back() -> None:
    assert wire.text_of(wire.to_parts("Grüße", "the goal")) == "Grüße"


def test_parts_are_taken_unchanged_and_only_texts_are_joined() -> None:
    parts = [common_pb2.Part(text="a"), common_pb2.Part(raw=b"x"), common_pb2.Part(text="b")]
    assert wire.to_parts(parts, "the goal") is parts
    assert wire.text_of(parts) == "a\n\nb"


def test_content_larger_than_a_message_is_refused() -> None:
    with pytest.raises(MessageTooLarge, match="the goal") as raised:
        wire.to_parts("x" * wire.MAX_CHECKED_BYTES, "the goal")
    assert int(raised.value.metadata["size"]) > wire.MAX_CHECKED_BYTES


def test_a_lone_surrogate_is_refused_or_replaced() -> None:
    with pytest.raises(InvalidArgument, match="the answer is not valid UTF-8"):
        wire.to_parts("a\ud800", "the answer")
    assert without_surrogates("a\ud800b") == "a?b"
    assert without_surrogates("\ud83d\ude00") == "\U0001f600", "halves that a stream cut apart"


@pytest.mark.parametrize("policy", PropagationPolicy)
def test_each_policy_comes_back_by_value_and_by_name(policy: PropagationPolicy) -> None:
    assert wire.policy_from_proto(wire.policy_to_proto(policy)) is policy
    assert wire.policy_from_proto(wire.policy_to_proto(policy.value)) is policy


def test_an_unknown_policy_reads_as_the_narrowest() -> None:
    assert wire.policy_from_proto(0) is PropagationPolicy.FINAL_RESPONSE_ONLY
    assert wire.policy_from_proto(99) is PropagationPolicy.FINAL_RESPONSE_ONLY
    with pytest.raises(InvalidArgument, match="unknown policy 'all'"):
        wire.policy_to_proto("all")


def test_a_description_of_parts_has_labels_for_files() -> None:
    parts = [
        common_pb2.Part(text="Look."),
        common_pb2.Part(raw=b"1234", filename="a.png", media_type="image/png"),
        common_pb2.Part(raw=b"1"),
        common_pb2.Part(url="https://x.org/a", media_type="image/png"),
        common_pb2.Part(data_json="{}"),
        common_pb2.Part(data_json="{}", media_type="application/x+json"),
    ]
    assert wire.described(parts).split("\n\n") == [
        "Look.",
        "[a.png, image/png, 4 bytes]",
        "[application/octet-stream, 1 bytes]",
        "[file, image/png: https://x.org/a]",
        "{}",
    ]
    assert wire.described(parts[:1]) == "Look."


@pytest.mark.parametrize(
    ("media_type", "text"),
    [("", "[1]"), ("application/json", "[1]"), ("Application/JSON; charset=utf-8", "[1]"), ("application/x+json", "")],
)
def test_json_value_is_read_as_text_unless_of_another_type(media_type: str, text: str) -> None:
    part = common_pb2.Part(data_json="[1]", media_type=media_type)
    assert wire.text_of([part]) == text
    assert wire.text_of([common_pb2.Part(text="a"), part]) == ("a\n\n[1]" if text else "a")
