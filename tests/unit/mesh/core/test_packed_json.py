"""JSON values packed against a source."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import InvalidArgument
from archon_mesh.core.packed_json import pack, unpack

LONG = "a text that is long enough to be replaced"
LONGER = LONG * 6
KEYS = st.sampled_from(["$", "$$", "$+", "a", "b"])
LEAVES = st.sampled_from([None, True, 1, 1.0, 0, "", "short", LONG, LONG + "!", f"{LONG}\n{LONG}?", json.dumps([LONG])])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


@given(VALUES, VALUES)
def test_an_unpacked_value_has_the_same_text(value: Any, source: Any) -> None:
    packed = json.loads(json.dumps(pack(value, source)))
    assert json.dumps(unpack(packed, source)) == json.dumps(value)


def test_parts_of_the_source_are_not_repeated() -> None:
    source = {"messages": [{"role": "user", "content": LONGER}]}
    value = {"input": [{"type": "text", "text": LONGER}], "messages": source["messages"]}
    packed = pack(value, source)
    assert packed == {
        "input": [{"type": "text", "text": {"$": ["messages", 0, "content"]}}],
        "messages": {"$": ["messages"]},
    }


def test_a_text_that_joins_others_names_them() -> None:
    source = {"messages": [LONG, LONG[::-1]]}
    packed = pack(f"1. {LONG}\n\n{LONG[::-1]}", source)
    assert packed == {"$+": ["1. ", {"$": ["messages", 0]}, "\n\n", {"$": ["messages", 1]}]}


def test_a_part_with_another_order_of_members_is_not_replaced() -> None:
    source = {"message": {"role": "user", "content": "the same members"}}
    assert "$" not in pack({"content": "the same members", "role": "user"}, source)


@pytest.mark.parametrize(
    "packed", [{"$": ["messages", 7]}, {"$": ["other"]}, {"$": 3}, {"$$": "text"}, {"$+": "x"}, {"$+": [1]}]
)
def test_a_changed_path_is_refused(packed: Any) -> None:
    with pytest.raises(InvalidArgument, match="was changed"):
        unpack(packed, {"messages": [LONG]})
