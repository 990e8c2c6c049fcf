"""JSON as models write it."""

from __future__ import annotations

import sys

import pytest

from archon_mesh.llm.text_format.lenient_json import MAX_DEPTH, LenientReader, NotJson


def read(text: str, *, finished: bool = True) -> object:
    return LenientReader(text, finished=finished).read()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': 'b'}", {"a": "b"}),
        ("{`a`: `b`}", {"a": "b"}),
        ("{\u201ca\u201d: \u201cb\u201d}", {"a": "b"}),
        ("{\u201ea\u201c: \u201eb\u201d}", {"a": "b"}),
        ("{\u2018a\u2019: \u2018b\u2019}", {"a": "b"}),
        ("{a: b}", {"a": "b"}),
        ("{a = 1, b => 2}", {"a": 1, "b": 2}),
        ("{'a': 1,}", {"a": 1}),
        ("[,1,,2,]", [1, 2]),
        ("{'a': 1 'b': 2}", {"a": 1, "b": 2}),
        ("[1 2]", [1, 2]),
        ("(1, 2)", [1, 2]),
        ("{'a': (1, 2)}", {"a": [1, 2]}),
        ("{'a': True, 'b': False, 'c': None, 'd': undefined}", {"a": True, "b": False, "c": None, "d": None}),
        ("{'a': 1 // one\n, # two\n /* three\n */ 'b': 2}", {"a": 1, "b": 2}),
        (
            "{'a': 1_000, 'b': -2.5, 'c': +3, 'd': .5, 'e': 1e3, 'f': 2E-1}",
            {"a": 1000, "b": -2.5, "c": 3, "d": 0.5, "e": 1000.0, "f": 0.2},
        ),
        ("{'a': 'it's so'}", {"a": "it's so"}),
        ("{'a': '''it's\n'so' '''}", {"a": "it's\n'so' "}),
        ('{\'a\': """b"""}', {"a": "b"}),
        ('{\'a\': """""", \'b\': 1}', {"a": "", "b": 1}),
        ("{'a': [1, {'b': 2}}", {"a": [1, {"b": 2}]}),
    ],
)
def test_deviations_are_read(text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("escape", "char"),
    [
        (r"\n", "\n"),
        (r"\t", "\t"),
        (r"\r", "\r"),
        (r"\b", "\b"),
        (r"\f", "\f"),
        (r"\_", "_"),
        (r"\"", '"'),
        (r"\'", "'"),
        (r"\`", "`"),
        (r"\\", "\\"),
        (r"\/", "/"),
        (r"\d", r"\d"),
        (r"\u00e9", "\u00e9"),
        (r"\u12", r"\u12"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud800\udc00", "\U00010000"),
        (r"\udbff\udfff", "\U0010ffff"),
        (r"\ud800\udfff", "\U000103ff"),
        (r"\udc00\udc00", "\udc00\udc00"),
        (r"\ud800\ue000", "\ud800\ue000"),
        (r"\ud800\udbff", "\ud800\udbff"),
        (r"\ud800", "\ud800"),
        (r"\ud800 1dc00", "\ud800 1dc00"),
    ],
)
def test_escapes(escape: str, char: str) -> None:
    assert read(f"{{'a': 'x{escape}y',}}") == {"a": f"x{char}y"}


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("", False),
        ("{", True),
        ("{'a'", True),
        ("{'a':", False),
        ("{'a': 'b", True),
        ("{'a': 1,", True),
        ("{'a': nan}", False),
        ("{'a': -Infinity}", False),
        ("{'a': NaN}", False),
        ("{'a': b c}", False),
        ("{5: 1}", False),
        ("{'a' 1}", True),
        ("{'a': '''b", True),
        ("}", False),
    ],
)
def test_what_is_no_json_is_an_error(text: str, cut: bool) -> None:
    with pytest.raises(NotJson) as caught:
        read(text)
    assert caught.value.cut is cut
    assert str(caught.value) == f"no JSON at character {caught.value.position}"


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_constant_that_json_does_not_have_is_refused(constant: str) -> None:
    with pytest.raises(NotJson):
        read(f'{{"a": {constant}}}')


def test_a_number_with_more_digits_than_python_reads_is_an_error() -> None:
    with pytest.raises(NotJson):
        read(f"[{'1' * (sys.get_int_max_str_digits() + 1)}, ]")


def test_a_number_at_the_end_is_whole_if_the_text_is() -> None:
    assert read("{'a': 12", finished=True) == {"a": 12}
    with pytest.raises(NotJson) as caught:
        read("{'a': 12", finished=False)
    assert caught.value.cut
    assert read("{'a': 12 ", finished=False) == {"a": 12}


def test_unclosed_containers_are_told() -> None:
    reader = LenientReader("{'a': {'b': 1", finished=True)
    value = reader.read()
    assert value == {"a": {"b": 1}}
    assert reader.is_unclosed(value) and reader.is_unclosed(value["a"])
    closed = LenientReader("{'a': {'b': 1}}")
    assert closed.is_unclosed(closed.read()) is False
    assert closed.unclosed == []


def test_the_position_is_behind_the_value() -> None:
    reader = LenientReader("say {'a': 1}, then", 4)
    assert reader.read() == {"a": 1}
    assert reader.text[reader.position :] == ", then"
    strict = LenientReader('say {"a": 1}, then', 4)
    assert strict.read() == {"a": 1}
    assert strict.text[strict.position :] == ", then"


def test_the_depth_is_bounded() -> None:
    assert read("[" * MAX_DEPTH + "'a'" + "]" * MAX_DEPTH)
    with pytest.raises(NotJson) as caught:
        read("[" * (MAX_DEPTH + 1) + "'a'" + "]" * (MAX_DEPTH + 1))
    assert caught.value.position == MAX_DEPTH
    assert not caught.value.cut
