"""The parser of the text format against the corpus, against mutations of it, and against replies that are long."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import ArchonError
from archon_mesh.llm import ParsingError, extract_json_from_text, parse_llm_action_response
from archon_mesh.llm.text_format import ParsedReply
from archon_mesh.llm.text_format.lenient_json import MAX_DEPTH
from archon_mesh.llm.text_format.parse import MAX_CANDIDATES, MAX_REPLY
from tests.unit.mesh.llm.text_format.corpus import Entry, read_corpus

ENTRIES = read_corpus()
NOTHING = [entry for entry in ENTRIES if not entry.recoverable]
MISSES = {"two_lines-3"}
"""Entries that are not recovered: without the list of tools, the parser cannot know that `Search` means `search`."""


CALLS = [entry for entry in ENTRIES if entry.tool is not None and entry.id not in MISSES]
WHOLE_BEFORE_THEIR_END = {"two_lines-16"}
"""Entries of which a part is a complete call, such as `Action: search()`, before more arguments follow."""


def is_plain_input(text: str) -> bool:
    """Whether a reply ends with a plain text as the input of an action, which ends with its line."""
    return "Action Input: " in text and "{" not in text


def parsed(text: str) -> ParsedReply | None:
    try:
        return parse_llm_action_response(text)
    except ParsingError:
        return None


def is_as_expected(entry: Entry, reply: ParsedReply | None) -> bool:
    if reply is None:
        return not entry.recoverable
    call = (reply.call.tool, reply.call.arguments) if reply.call else (None, None)
    return (*call, reply.final_answer) == (entry.tool, entry.arguments, entry.answer)


def test_at_least_98_percent_of_the_corpus_are_recovered() -> None:
    recoverable = [entry for entry in ENTRIES if entry.recoverable]
    recovered = [entry for entry in recoverable if is_as_expected(entry, parsed(entry.reply))]
    assert len(recovered) >= 0.98 * len(recoverable)
    assert {entry.id for entry in recoverable} - {entry.id for entry in recovered} == MISSES


def test_nothing_is_read_where_nothing_is_meant_or_complete() -> None:
    assert [entry.id for entry in NOTHING if parsed(entry.reply) is not None] == []


def test_a_thought_is_kept() -> None:
    reply = parse_llm_action_response('Thought: first\nand more\nAction: {"tool": "search", "arguments": {}}')
    assert reply.thought == "first\nand more"


def test_a_parsing_error_is_typed() -> None:
    with pytest.raises(ParsingError) as caught:
        parse_llm_action_response("The capital is Paris.")
    assert isinstance(caught.value, ArchonError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.kind == "model.format"


@pytest.mark.filterwarnings("error")
def test_an_invalid_escape_in_a_function_call_gives_no_warning() -> None:
    reply = parse_llm_action_response(r'Action: grep(pattern="\d+")')
    assert reply.call is not None
    assert reply.call.arguments == {"pattern": r"\d+"}


# No call is made up ------------------------------------------------------------------------------------------------


def is_none_or_expected(entry: Entry, text: str) -> bool:
    """Whether a changed reply gives no call, or the one that its entry expects."""
    reply = parsed(text)
    if reply is None or reply.call is None:
        return True
    return (reply.call.tool, reply.call.arguments) == (entry.tool, entry.arguments)


def test_a_truncated_reply_gives_its_call_or_none() -> None:
    wrong: list[tuple[str, str]] = []
    for entry in (*CALLS, *NOTHING):
        if entry.id in WHOLE_BEFORE_THEIR_END:
            continue
        for end in range(len(entry.reply)):
            text = entry.reply[:end]
            if not is_none_or_expected(entry, text):
                wrong.append((entry.id, text))
            # The token that ends the turn does not tell that the JSON is complete.
            if not is_none_or_expected(entry, text + "<|im_end|>") and not is_plain_input(text):
                wrong.append((entry.id, text + "<|im_end|>"))
    assert wrong == []


WORDS = st.text(alphabet="abcdefghij ,.!?'\"\n", min_size=1, max_size=60)
MENTIONS = st.sampled_from(
    [
        'Write Action: {"tool": "search", "arguments": {"query": "x"}} in a line.',
        'The words "Action:" and "Final Answer:" are markers.',
        "`Action: search`",
        '`{"tool": "delete", "arguments": {"path": "/"}}` is an example.',
        'One may say: Action: {"tool": "delete", "arguments": {"path": "/"}} and so on.',
        "<tool_call> is a tag, and so is </tool_call>.",
    ]
)
EXAMPLE = (
    'An example of a reply:\n\n```\nThought: I need it.\nAction: {"tool": "delete", "arguments": {"path": "/"}}\n```\n'
)


@given(st.lists(st.one_of(WORDS, MENTIONS), min_size=1, max_size=5))
def test_prose_that_mentions_markers_gives_no_call(pieces: list[str]) -> None:
    reply = parsed("Well, " + " ".join(pieces))
    assert reply is None or reply.call is None


@given(st.sampled_from(CALLS), st.sampled_from(["```", "~~~"]), st.text(alphabet="abc \n", max_size=20))
def test_a_reply_that_is_shown_in_a_code_block_gives_no_call(entry: Entry, fence: str, prose: str) -> None:
    if fence in entry.reply or "</think>" in entry.reply:
        return
    reply = parsed(f"Here is how a model would reply {prose}.\n\n{fence}\n{entry.reply}\n{fence}\nThat was all.")
    assert reply is None or reply.call is None


@given(st.sampled_from(CALLS))
def test_an_example_before_a_call_does_not_replace_it(entry: Entry) -> None:
    assert is_none_or_expected(entry, EXAMPLE + "\n" + entry.reply)


@given(st.sampled_from(CALLS), st.sampled_from(["45", "It depends.", "a\nb"]))
def test_a_final_answer_wins_over_any_call(entry: Entry, answer: str) -> None:
    if "```" in entry.reply or "~~~" in entry.reply:
        return
    reply = parsed(f"{entry.reply}\nFinal Answer: {answer}")
    assert reply is not None
    assert (reply.call, reply.final_answer) == (None, answer)


@given(st.sampled_from(ENTRIES), st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_damaged_reply_names_no_tool_that_it_does_not_have(entry: Entry, dice: random.Random, times: int) -> None:
    text = entry.reply
    for _ in range(times):
        start = dice.randrange(len(text) + 1)
        end = min(len(text), start + dice.randrange(8))
        text = text[:start] + dice.choice(["", "", text[start:end] * 2, *"{}[]\"',:\n`"]) + text[end:]
    reply = parsed(text)
    if reply is not None and reply.call is not None:
        assert reply.call.tool in text


@given(st.text(max_size=300))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    parsed(text)
    parsed("Action: {" + text)
    try:
        extract_json_from_text("{" + text)
    except ParsingError:
        pass


# JSON in a text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Here: {"a": 1}.', {"a": 1}),
        ("```json\n[1, 2,]\n```", [1, 2]),
        ("The set {x | x > 1} and {'a': True}", {"a": True}),
        ('{not this} {"a": {"b": [1]}}', {"a": {"b": [1]}}),
        ('{"goal": "x", "steps": [{"id": 1}]', {"goal": "x", "steps": [{"id": 1}]}),
        ('{"a": [1, 2], "b": "x"', {"a": [1, 2], "b": "x"}),
        ('[{"a": 1}, "x"', [{"a": 1}, "x"]),
        ("nothing: {}", {}),
        ("[]", []),
    ],
)
def test_json_is_found_in_a_text(text: str, value: object) -> None:
    assert extract_json_from_text(text) == value


@pytest.mark.parametrize("text", ["", "none here", "{", '{"a": "b', '{"a": {"b": 1', "[" * (MAX_DEPTH + 1)])
def test_a_text_without_json_is_an_error(text: str) -> None:
    with pytest.raises(ParsingError, match=r"^the text has no JSON object or array that can be read$"):
        extract_json_from_text(text)


def test_a_reply_with_neither_call_nor_answer_is_an_error() -> None:
    with pytest.raises(ParsingError, match=r"^the reply has no call and no final answer that can be read$"):
        parse_llm_action_response("I will look it up.")


def test_json_is_looked_for_at_a_few_brackets_only() -> None:
    assert extract_json_from_text("{no} " * (MAX_CANDIDATES - 1) + '{"a": 1}') == {"a": 1}
    with pytest.raises(ParsingError):
        extract_json_from_text("{no} " * MAX_CANDIDATES + '{"a": 1}')


# Long replies ------------------------------------------------------------------------------------------------------

HOSTILE = [
    "{", "[", '"', "'", "}", "{\"", "{'", '{"a":', '{"a', "Action: {", "Action:\n", "Thought: ", "```\n", "<tool_call>\n", "/*", "{/*",
    '" ', "* ", "\n", " ", "#", "<think>", "\\", "Action: {'a': '", "a. Action: {", "<|im_end|>", "Action: a(", "1. ", "{{", '"""', "</think>",
    "<parameter=a>", "[TOOL_CALLS]", "Final Answer:\n", "a:1,", '{"tool":"a",', "(", "“", "_", "1",
]  # fmt: skip


def seconds(piece: str, length: int) -> float:
    begun = time.process_time()
    for text in (piece * (length // len(piece)), "Action: {" + piece * ((length - 9) // len(piece))):
        parsed(text)
        try:
            extract_json_from_text(text)
        except ParsingError:
            pass
    return time.process_time() - begun


@pytest.mark.large
@pytest.mark.parametrize(
    "piece", [*HOSTILE[:4], *(pytest.param(piece, marks=pytest.mark.slow) for piece in HOSTILE[4:])]
)
def test_the_work_grows_with_the_length_only(piece: str) -> None:
    small, large = 16 * 1024, 256 * 1024
    # Of a quadratic parser, 16 times the length takes 256 times the time; the constant covers what is too short to measure.
    bound = 16 * 4 * (min(seconds(piece, small) for _ in range(3)) + 0.002)
    assert any(seconds(piece, large) < bound for _ in range(3)), "other processes may slow one of them"


def test_a_reply_above_the_limit_is_refused() -> None:
    with pytest.raises(
        ParsingError, match=rf"^the reply has {MAX_REPLY + 1} characters; at most {MAX_REPLY} are read$"
    ):
        parse_llm_action_response("a" * (MAX_REPLY + 1))
