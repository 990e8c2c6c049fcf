"""Content crosses between A2A and Archon without loss."""

from __future__ import annotations

import json

import pytest
from a2a.types import a2a_pb2
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import InvalidArgument
from archon.types.part import Part
from archon.wire import JSON_TYPE
from archon_services.common.a2a_parts import MESSAGE_ID, message_id_of, parts_from_a2a, parts_to_a2a

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SIMPLE = (
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
VALUES = st.recursive(SIMPLE, lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXTS, each, max_size=3))


def crossed(part: Part) -> Part:
    [back] = parts_from_a2a(a2a_pb2.Message(parts=parts_to_a2a([part])))
    return back


@given(TEXTS)
def test_texts_cross(text: str) -> None:
    assert crossed(Part(text=text, filename="a.txt", media_type="text/plain")).text == text


@given(st.binary(max_size=50))
def test_bytes_cross(raw: bytes) -> None:
    assert crossed(Part(raw=raw, media_type="image/png")) == Part(raw=raw, media_type="image/png")


@given(VALUES)
def test_json_values_cross_exactly_or_as_text(value: object) -> None:
    back = crossed(Part(data_json=json.dumps(value), media_type=JSON_TYPE))
    assert back.media_type == JSON_TYPE
    assert json.loads(back.data_json if back.data_json is not None else back.text or "") == value


def test_integers_stay_integers() -> None:
    assert crossed(Part(data_json='{"n": 42}')).data_json == '{"n": 42}'
    assert crossed(Part(data_json='{"n": 9007199254740993}', media_type=JSON_TYPE)).text == '{"n": 9007199254740993}'


def test_a_message_id_goes_with_the_first_part_alone() -> None:
    message = a2a_pb2.Message(message_id="m-1", parts=[a2a_pb2.Part(text="a"), a2a_pb2.Part(text="b")])
    parts = parts_from_a2a(message)
    assert message_id_of(parts) == "m-1" and MESSAGE_ID not in parts[1].metadata
    assert not parts_to_a2a(parts)[0].HasField("metadata")


def test_a_part_without_content_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        parts_from_a2a(a2a_pb2.Message(parts=[a2a_pb2.Part()]))
