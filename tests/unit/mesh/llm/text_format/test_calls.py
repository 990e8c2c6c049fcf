"""Which calls and arguments are read."""

from __future__ import annotations

import pytest

from archon_mesh.llm.text_format.calls import FinalAnswer, ParsedCall, call_of, is_tool_name, read_arguments, read_call


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("``", {}),
        ("None", {}),
        ("N/A", {}),
        ("null", {}),
        ("nothing", {"input": "nothing"}),
        ("plain text", {"input": "plain text"}),
        ("`code`", {"input": "code"}),
        ('"quoted"', {"input": "quoted"}),
        ("'quoted'", {"input": "quoted"}),
        ('"half', {"input": '"half'}),
        ('"', {"input": '"'}),
        ('""', {"input": ""}),
        ("XaX", {"input": "XaX"}),
        ("aba", {"input": "aba"}),
        ("{'a': 1}", {"a": 1}),
    ],
)
def test_arguments_in_a_text(text: str, arguments: dict[str, object]) -> None:
    assert call_of("add", text) == ParsedCall("add", arguments)


@pytest.mark.parametrize("text", ["[1, 2]", "(1, 2)", '{"a": 1', '{"a"', "{", "[1"])
def test_arguments_that_are_no_whole_object_give_no_call(text: str) -> None:
    assert call_of("add", text) is None


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("45", "45"),
        (' "45" ', "45"),
        ("X45X", "X45X"),
        ({"answer": "45"}, "45"),
        ({"answer": 45}, "45"),
        ({"answer": {"text": 45}}, "{'text': 45}"),
        ({"a": 1, "b": 2}, "{'a': 1, 'b': 2}"),
        (45, "45"),
        (["a"], "['a']"),
    ],
)
def test_an_answer_may_be_written_as_a_call(arguments: object, answer: str) -> None:
    for tool in ("final_answer", "Final Answer", "finish"):
        assert call_of(tool, arguments) == FinalAnswer(answer)


@pytest.mark.parametrize("arguments", ["", '""', None, {"answer": None}, {"answer": ""}])
def test_an_empty_answer_is_none(arguments: object) -> None:
    assert call_of("final_answer", arguments) is None


@pytest.mark.parametrize("name", ["`add`", '"add"', "'add'", "*add*", "[add]", " add ", "functions.add"])
def test_a_name_is_read_without_what_surrounds_it(name: str) -> None:
    assert call_of(name, {"a": 1}) == ParsedCall("add", {"a": 1})


@pytest.mark.parametrize(
    "name", ["none", "N/A", "na", "null", "nothing", "tool_name", "tool", "", "2nd", "a b", "a" * 129]
)
def test_a_name_that_stands_for_no_tool_gives_no_call(name: str) -> None:
    assert not is_tool_name(name)
    assert call_of(name, {}) is None


@pytest.mark.parametrize("name", ["add", "_add", "web.search", "a/b", "ns:add", "get-it", "a" * 128])
def test_a_name_of_a_tool_is_known_by_its_form(name: str) -> None:
    assert is_tool_name(name)


@pytest.mark.parametrize("tool_key", ["tool", "tool_name", "action", "name", "function"])
@pytest.mark.parametrize(
    "argument_key", ["arguments", "args", "action_input", "parameters", "params", "tool_input", "tool_args", "input"]
)
def test_the_keys_of_a_call(tool_key: str, argument_key: str) -> None:
    text = f'{{"{tool_key}": "add", "{argument_key}": {{"a": 1}}}}'
    assert read_call(text, announced=False, finished=True) == ParsedCall("add", {"a": 1})


@pytest.mark.parametrize("key", ["function", "action", "tool", "tool_call", "function_call", "tool_calls"])
@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_a_call_may_be_nested(key: str, form: str) -> None:
    inner = form.replace("{}", '{"name": "add", "arguments": {"a": 1}}')
    assert read_call(f'{{"{key}": {inner}}}', announced=True, finished=True) == ParsedCall("add", {"a": 1})


@pytest.mark.parametrize("key", ["tool", "tool_name", "action"])
@pytest.mark.parametrize("other", ["thought", "reasoning", "type", "id", "tool_call_id", "explanation"])
def test_a_tool_without_arguments_needs_a_marker(key: str, other: str) -> None:
    text = f'{{"{key}": "now", "{other}": "x"}}'
    assert read_call(text, announced=True, finished=True) == ParsedCall("now", {})
    assert read_call(text, announced=False, finished=True) is None
    assert read_call(text.replace(other, "city"), announced=True, finished=True) is None


def test_a_name_alone_is_no_call() -> None:
    assert read_call('{"name": "Ana"}', announced=True, finished=True) is None


def test_an_answer_in_json_needs_no_tool() -> None:
    assert read_call('{"Final Answer": "45"}', announced=False, finished=True) == FinalAnswer("45")
    assert read_call('{"finalanswer": "45"}', announced=False, finished=True) == FinalAnswer("45")
    with_tool = '{"final_answer": "45", "tool": "add", "arguments": {}}'
    assert read_call(with_tool, announced=True, finished=True) == ParsedCall("add", {})


@pytest.mark.parametrize(
    ("text", "whole", "is_call"),
    [
        ('{"tool": "add", "args": {}} }', True, True),
        ('{"tool": "add", "args": {}} and so', True, False),
        ('{"tool": "add", "args": {}} and so', False, False),
        ('{"tool": "add", "args": {}} And so', False, True),
        ('{"tool": "add", "args": {}}\nand so', False, True),
    ],
)
def test_a_sentence_that_goes_on_behind_it_quotes_a_call(text: str, whole: bool, is_call: bool) -> None:
    call = read_call(text, announced=True, finished=True, whole=whole)
    assert call == (ParsedCall("add", {}) if is_call else None)


@pytest.mark.parametrize(
    "text",
    [
        '{\\"tool\\": \\"add\\", \\"args\\": {\\"a\\": 1}}',
        '{{"tool": "add", "args": {{"a": 1}}}}',
        '"tool": "add", "args": {"a": 1}}',
        "'name' : 'add', 'args': {'a': 1}}",
    ],
    ids=["escaped", "doubled", "without a first brace", "other quotes without one"],
)
def test_what_a_template_added_is_removed(text: str) -> None:
    assert read_call(text, announced=True, finished=True) == ParsedCall("add", {"a": 1})


@pytest.mark.parametrize(
    ("text", "announced", "arguments"),
    [
        ('{"tool": "add", "args": "text"}', True, {"input": "text"}),
        ('{"tool": "add", "args": "text"}', False, None),
        ('{"tool": "add", "args": "text"', True, None),
        ('{"tool": "add", "args": "{\\"a\\": 1}"}', False, {"a": 1}),
        ('{"tool": "add", "args": "X{\\"a\\": 1}"}', False, None),
        ('{"tool": "add", "args": null}', True, {}),
        ('{"tool": "add", "args": 5}', True, None),
    ],
)
def test_arguments_that_are_no_object(text: str, announced: bool, arguments: dict[str, object] | None) -> None:
    call = read_call(text, announced=announced, finished=True)
    assert call == (None if arguments is None else ParsedCall("add", arguments))


def test_unclosed_arguments_count_only_if_the_text_ends_there() -> None:
    text = '{"tool": "add", "args": {"a": 1'
    assert read_call(text, announced=True, finished=True) == ParsedCall("add", {"a": 1})
    assert read_call(text + " ", announced=True, finished=False) is None
    assert read_arguments("add", '{"a": 1', finished=True) == ParsedCall("add", {"a": 1})
    assert read_arguments("add", '{"a": 1 ', finished=False) is None
    assert read_arguments("add", '{"a": 1}', finished=False) == ParsedCall("add", {"a": 1})
    assert read_arguments("add", "}", finished=True) is None


@pytest.mark.parametrize("text", ["[]", "5", '"text"', "{}", "[5]", '{"tool": 5}'])
def test_json_that_is_no_call(text: str) -> None:
    assert read_call(text, announced=True, finished=True) is None
