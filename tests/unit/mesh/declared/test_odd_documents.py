"""YAML that no author means, in files of agents and of workflows: each is one typed error, or a value as JSON has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_mesh.declared import load_agent
from archon_mesh.declared.document import Document
from archon_mesh.llm.prices import read_prices
from archon_mesh.workflows import load_workflow
from archon_services.common.settings import load
from archon_services.registry.settings import RegistrySettings

LAUGHS = "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

REFUSED = {
    "a tag": ("!foo bar", "the tag !foo is not supported here"),
    "a tag of Python": ("!!python/object/apply:os.system ['id']", "the tag !!python/object/apply:os.system is not"),
    "a tag within": ("[{a: !bar b}]", "the tag !bar is not supported here"),
    "bytes": ("!!binary aGVsbG8=", "the tag !!binary is not supported here"),
    "a set": ("!!set {a, b}", "the tag !!set is not supported here"),
    "pairs": ("!!pairs [a: 1]", "the tag !!pairs is not supported here"),
    "a list as a text": ("!!str [a]", "the tag !!str is not supported here"),
    "an object as a number": ("!!int {a: 1}", "the tag !!int is not supported here"),
    "a huge number": ("9" * 5000, "invalid whole number"),
    "a huge hexadecimal number": ("0x" + "f" * 5000, "the number has more than 64 bits"),
    "a number of 65 bits": ("18446744073709551616", "the number has more than 64 bits"),
    "no number": ("!!int abc", "invalid whole number: 'abc'"),
    "an empty number": ("!!int ''", "invalid whole number: ''"),
    "no decimal": ("!!float x", "invalid number: 'x'"),
    "no boolean": ("!!bool maybe", "invalid boolean: 'maybe'"),
    "a list as a key": ("{? [1, 2] : x}", "a key must be a text"),
    "an object as a key": ("{? {a: 1} : x}", "a key must be a text"),
    "a number as a key": ("{1: x}", "the key 1 must be a text: write it in quotes"),
    "null as a key": ("{~: x}", "the key ~ must be a text: write it in quotes"),
    "yes as a key": ("{yes: x}", "the key yes must be a text: write it in quotes"),
    "a list that has itself": ("&a [*a]", "nested more than 50 levels deep"),
    "an object that has itself": ("&a {b: *a}", "nested more than 50 levels deep"),
    "a key that has itself": ("&a {? *a : 1}", "a key must be a text"),
    "merged keys": ("{<<: {a: 1}}", "merge keys (<<) are not supported: write the keys here"),
    "a merged number": ("{<<: 3}", "merge keys (<<) are not supported: write the keys here"),
    "a key twice": ("{a: 1, a: 2}", "duplicate key"),
    "an unknown alias": ("*nope", "found undefined alias"),
    "half a character": ('"\\ud800"', "half of a surrogate pair"),
    "half a character as a key": ('{"\\ud800": 1}', "half of a surrogate pair"),
    "many brackets": ("[" * 20_000 + "]" * 20_000, "nested more than 50 levels deep"),
    "a default with a tag": ("${NOPE:-!foo x}", "the tag !foo is not supported here"),
    "a huge default": ("${NOPE:-" + "9" * 5000 + "}", "invalid whole number"),
}
FILES = {
    "bytes": bytes(range(256)),
    "UTF-16": "name: x\n".encode("utf-16"),
    "UTF-16 without a mark": "name: x\n".encode("utf-16-le"),
    "Latin-1": b"name: \xe4\n",
    "NUL": b"name: \0\n",
    "a bell": b"name: \x07\n",
    "two documents": b"a: 1\n---\nb: 2\n",
    "another version": b"%YAML 9.9\n---\na: 1\n",
    "a list": b"- a\n",
    "a text": b"x\n",
    "a date": b"2020-01-01\n",
    "itself": b"&a\nb: *a\n",
    "laughs": f"a: &a [{', '.join('x' * 10)}]\n{LAUGHS}".encode(),
    "a tag": b"!foo\na: 1\n",
    "merged keys": b"x: &x {name: y}\n<<: *x\n",
    "no end": b"'abc\n",
    "too much": b"a: " + b"x" * 1024 * 1024,
}


def one_sentence(error: InvalidArgument) -> bool:
    return "\n  in " not in error.message and "Traceback" not in error.message and len(error.message) < 2_000


@pytest.mark.parametrize("name", REFUSED)
def test_an_odd_value_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    value, message = REFUSED[name]
    file = tmp_path / "odd.yaml"
    file.write_text(f"name: x\nsteps: [{{task: t}}]\ndescription: {value}\n")
    for read in (lambda: load_agent(file, environment={}), lambda: Document(file, {})):
        with pytest.raises(InvalidArgument) as raised:
            read()
        assert message in raised.value.message
        assert one_sentence(raised.value)
        assert f"{file}:3" in raised.value.message
    if "NOPE" not in value:
        with pytest.raises(InvalidArgument) as raised:
            load_workflow(file)
        assert message in raised.value.message


@pytest.mark.parametrize("name", FILES)
def test_an_odd_file_is_a_typed_error(tmp_path: Path, name: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes(FILES[name])
    for read in (load_agent, load_workflow):
        with pytest.raises(InvalidArgument) as raised:
            read(file)
        assert str(file) in raised.value.message
        assert one_sentence(raised.value)


def test_a_wrong_value_of_a_variable_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text("name: x\nmodel: ${SECRET}\n")
    for secret in ("!!int " + "s3cret" * 30, "9" * 5_000):
        with pytest.raises(InvalidArgument) as raised:
            load_agent(file, environment={"SECRET": secret})
        assert "${SECRET}" in raised.value.message
        assert secret[6:40] not in raised.value.message


def prices(path: Path) -> object:
    return read_prices(path)


def settings(_: Path) -> object:
    return load(RegistrySettings, [])


@pytest.mark.parametrize("read", [prices, settings])
@pytest.mark.parametrize("name", [*REFUSED, *FILES])
def test_other_files_in_yaml_are_as_strict(
    tmp_path: Path, name: str, read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "odd.yaml"
    monkeypatch.setenv("ARCHON_CONFIG", str(file))
    if name in REFUSED:
        file.write_text(f"models: {REFUSED[name][0]}\ncommon: {REFUSED[name][0]}\n")
    else:
        file.write_bytes(FILES[name])
    with pytest.raises(InvalidArgument) as raised:
        read(file)
    assert str(file) in raised.value.message
    assert one_sentence(raised.value)


def test_a_path_that_no_file_can_have_is_a_typed_error(tmp_path: Path) -> None:
    for path in ("a\0b", str(tmp_path), "x" * 5_000, f"{tmp_path}/{'y' * 300}", "/dev/zero"):
        with pytest.raises(InvalidArgument):
            load_workflow(path)


def test_what_is_left_is_a_value_of_json(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(
        "\ufeffdate: 2020-01-01\nbad date: 2020-13-99\nequals: =\ntime: 12:30:45\noctal: 010\n'1': ~\n"
        'bool: yes\nnumber: -0x10\nlarge: 18446744073709551615\nnul: "\\0"\nkept: !!str 5\nalias: [&a {b: 1}, *a]\n'
        "variable: ${NOPE:-[a}\nreference: ${NOPE:-*x}\nlist: ${NOPE:-[1]}\n"
    )
    value = Document(file, {}).value
    assert json.loads(json.dumps(value)) == value
    assert value == {
        "date": "2020-01-01",
        "bad date": "2020-13-99",
        "equals": "=",
        "time": "12:30:45",
        "octal": "010",
        "1": None,
        "bool": True,
        "number": -16,
        "large": 2**64 - 1,
        "nul": "\0",
        "kept": "5",
        "alias": [{"b": 1}, {"b": 1}],
        "variable": "[a",
        "reference": "*x",
        "list": "[1]",
    }


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan", "1.0e+20"])
@pytest.mark.parametrize("key", ["timeout", "tool_timeout", "subagent_timeout", "temperature"])
def test_a_number_that_is_no_time_is_a_mistake_of_its_key(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(f"name: x\nmodel: offline\n{key}: {value}\n")
    with pytest.raises(InvalidArgument, match=rf"x\.yaml:3: {key}: "):
        load_agent(file)
