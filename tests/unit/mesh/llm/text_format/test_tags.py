"""Calls in the wrappers that models were trained on."""

from __future__ import annotations

import pytest

from archon_mesh.llm.text_format.calls import FinalAnswer, ParsedCall
from archon_mesh.llm.text_format.tags import read_tag


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>',
        '<tool_call>\n```json\n{"name": "add", "arguments": {"a": 1}}\n```\n</tool_call>',
        '<|tool_call|>[{"name": "add", "arguments": {"a": 1}}]',
        '[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}}]',
        '[TOOL_CALLS]add{"a": 1}',
        '[TOOL_CALLS]add[ARGS]{"a": 1}',
        'functools[{"name": "add", "arguments": {"a": 1}}]',
        '<function=add>{"a": 1}</function>',
        "<function=add><parameter=a>1</parameter></function>",
        "<function=add><parameter=a>\n1\n</parameter></function>",
        '<invoke name="add"><parameter name="a">1</parameter></invoke>',
        '<function_calls><invoke name="add">\n<parameter name="a">1</parameter>\n</invoke></function_calls>',
        "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
        '<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
        '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1}',
    ],
)
def test_each_wrapper_is_read(text: str) -> None:
    assert read_tag(text, finished=True) == ParsedCall("add", {"a": 1})


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("1", 1),
        ("true", True),
        ("[1]", [1]),
        ('{"b": 1}', {"b": 1}),
        ('"1"', '"1"'),
        ("one", "one"),
        ("", ""),
        ("\n1", 1),
    ],
)
def test_the_value_of_a_parameter_has_its_type(value: str, read: object) -> None:
    text = f"<function=add><parameter=a>{value}</parameter><parameter=b>2</parameter></function>"
    assert read_tag(text, finished=True) == ParsedCall("add", {"a": read, "b": 2})


def test_a_parameter_that_is_not_closed_ends_them() -> None:
    text = "<function=add><parameter=a>1</parameter><parameter=b>2</function>"
    assert read_tag(text, finished=True) == ParsedCall("add", {"a": 1})
    assert read_tag("<function=add><parameter=a>1</parameter>", finished=True) is None


def test_an_answer_in_a_tag() -> None:
    assert read_tag(" <final_answer> 45 </final_answer>", finished=True) == FinalAnswer("45")
    assert read_tag("<final_answer>45", finished=True) == FinalAnswer("45")
    assert read_tag("<final_answer> </final_answer>", finished=True) is None


@pytest.mark.parametrize("opening", ["<function=add>", '<invoke name="add">'])
def test_unclosed_arguments_count_only_if_something_closes_them(opening: str) -> None:
    assert read_tag(f'{opening}{{"a": [1', finished=False) is None
    assert read_tag(f'{opening}\n {{"a": [1', finished=True) == ParsedCall("add", {"a": [1]})
    assert read_tag(f'{opening}{{"a": [1\n</function>', finished=False) == ParsedCall("add", {"a": [1]})
    assert read_tag(f'{opening}  {{"a": 1}}', finished=False) == ParsedCall("add", {"a": 1})


@pytest.mark.parametrize("text", ["text", "<tool_call>text</tool_call>", "<b>{</b>", '{"x": "<function=add>"}', ""])
def test_other_texts_have_no_call(text: str) -> None:
    assert read_tag(text, finished=True) is None


def test_a_name_behind_an_object_is_not_the_tools() -> None:
    text = '<tool_call>{"name": "add", "arguments": {"text": "<function=other>"}}</tool_call>'
    assert read_tag(text, finished=True) == ParsedCall("add", {"text": "<function=other>"})
