"""Rounds of a conversation, and what its compacted forms keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.core.compaction import (
    MAX_EXTRACT,
    MAX_LABELS,
    MAX_LINE,
    broken_pairing,
    extract,
    is_summary,
    left_out_labels,
    rounds,
    sliding_window,
    summary,
    summary_text,
    without_tool_results,
)
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage
from tests.fixtures.conversations import replied, user

TALK = [
    user("1"),
    *replied("a", "c1", "c2"),
    *replied("b"),
    user("2"),
    *replied("c", "c3"),
    *replied("d", "c4"),
    *replied("e"),
]


@st.composite
def talks(draw: st.DrawFn) -> list[ChatMessage]:
    talk: list[ChatMessage] = []
    number = 0
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            talk.append(user(f"query {len(talk)}"))
        calls = [f"c{number + n}" for n in range(draw(st.integers(0, 3)))]
        number += len(calls)
        talk += replied(f"reply {len(talk)}", *calls)
    return [*talk, user("the query")] if draw(st.booleans()) else talk


def contents(messages: list[ChatMessage]) -> list[str]:
    return [message.content[:6] for message in messages]


def test_round_is_a_query_and_one_reply_with_its_results() -> None:
    assert [contents(group) for group in rounds(TALK)] == [
        ["1", "a", "result", "result"],
        ["b"],
        ["2", "c", "result"],
        ["d", "result"],
        ["e"],
    ]
    assert rounds([]) == []


def test_results_without_a_reply_are_a_round() -> None:
    result = ChatMessage("tool", "r", tool_call_id="c1")
    assert rounds([result, result, user("1")]) == [[result, result], [user("1")]]
    assert rounds([user("1"), user("2"), *replied("a"), user("3")]) == [
        [user("1"), user("2"), *replied("a")],
        [user("3")],
    ]


def test_window_keeps_the_last_rounds_and_the_last_query() -> None:
    assert contents(sliding_window(TALK)) == contents(sliding_window(TALK, 2)) == ["2", "d", "result", "e"]
    assert contents(sliding_window(TALK, 3)) == ["2", "c", "result", "d", "result", "e"]
    assert contents(sliding_window(TALK, 1)) == ["2", "e"]
    assert contents(sliding_window(TALK, 0)) == ["2"]
    assert contents(sliding_window(replied("a") + replied("b"), 1)) == ["b"], "there is no query"
    assert is_summary(sliding_window([summary("s"), *TALK], 1)[0])


def test_window_larger_than_the_conversation_changes_nothing() -> None:
    conversation = [summary("s"), *TALK]
    assert sliding_window(conversation, len(rounds(conversation)) + 2) == conversation


def test_old_results_are_replaced_by_their_length() -> None:
    note = "[a result of 213 characters, left out]"
    tools = [message.content[:38] for message in without_tool_results(TALK) if message.role == "tool"]
    assert tools == [note, note, note, "result of c4 " + "x" * 25]
    large = [ChatMessage("assistant"), ChatMessage("tool", "y" * 1_234), *TALK]
    assert without_tool_results(large, 1)[1].content == "[a result of 1,234 characters, left out]"
    assert without_tool_results(large, 0)[-2].content == note
    short = ChatMessage("tool", "z" * len("[a result of 36 characters, left out]"))
    assert without_tool_results([ChatMessage("assistant"), short, *TALK])[1] is short, "the note is no shorter"


@given(talks(), st.integers(1, 4))
def test_strategies_keep_calls_with_their_results_and_the_query(talk: list[ChatMessage], window: int) -> None:
    queries = [message for message in talk if message.role == "user"]
    for compacted in (sliding_window(talk, window), without_tool_results(talk, window)):
        assert broken_pairing(compacted) == ""
        assert compacted[-len(rounds(talk)[-1]) :] == rounds(talk)[-1] if talk else compacted == []
        assert not queries or queries[-1] in compacted
    assert [message.role for message in without_tool_results(talk, window)] == [message.role for message in talk]


def test_broken_pairing_is_described() -> None:
    (call, result, *_) = replied("a", "c1")
    assert broken_pairing([call]) == "call c1 has no result"
    assert broken_pairing([call, user("?"), result]) == "call c1 has no result"
    assert broken_pairing([result]) == "the result of call c1 has no call before it"
    assert broken_pairing([call, result, result]) == "the result of call c1 has no call before it"
    assert broken_pairing([user("?"), call, result]) == ""
    assert broken_pairing(TALK) == ""
    (two, first, _) = replied("a", "c2", "c1")
    assert broken_pairing([two, first]) == "call c1 has no result"
    assert broken_pairing([two]) == "call c1 has no result", "of several, the first by name"


def test_a_summary_is_marked() -> None:
    made = summary("They met.")
    assert made == ChatMessage("user", "[Earlier conversation summarized: They met.]", metadata={"summary": True})
    assert is_summary(made)
    assert summary_text(made) == "They met."
    assert not is_summary(user(made.content))
    assert summary_text(user(made.content)) == made.content
    assert not is_summary(ChatMessage("user", "", metadata={"summary": "yes"}))


def test_an_extract_has_the_first_sentences_of_queries_and_replies() -> None:
    talk = [
        summary("Older."),
        ChatMessage("system", "Be brief."),
        user("First. Second."),
        *replied("", "c1"),
        *replied("y" * 200),
    ]
    assert extract(talk) == f"user: First.\nassistant: {'y' * MAX_LINE}"
    assert extract([]) == ""


@pytest.mark.parametrize(("number", "fits"), [(1, 1), (18, 18), (200, 18)])
def test_an_extract_has_the_latest_messages_that_fit(number: int, fits: int) -> None:
    talk = [user(f"{index:04}" + "x" * 200) for index in range(number)]
    lines = extract(talk).splitlines()
    assert [line[:10] for line in lines] == [f"user: {index:04}" for index in range(number - fits, number)]
    assert {len(line) for line in lines} == {MAX_LINE + len("user: ")}
    assert len(extract(talk)) < MAX_EXTRACT


def shown(number: int) -> ChatMessage:
    return ChatMessage("user", f"What is {number}?", files=[Media(b"1", "image/png", name=f"{number}.png")])


def test_a_window_names_the_files_of_what_it_leaves_out() -> None:
    talk = [shown(1), *replied("a"), shown(2), *replied("b"), shown(3), *replied("c")]
    note, *kept = sliding_window(talk, 1)
    assert kept == [shown(3), *replied("c")]
    assert is_summary(note)
    assert (
        note.content
        == "[Files of earlier messages, left out: [1.png, image/png, 1 bytes], [2.png, image/png, 1 bytes]]"
    )


def test_notes_about_files_become_one_of_the_newest() -> None:
    talk: list[ChatMessage] = []
    for number in range(MAX_LABELS + 5):
        talk = sliding_window([*talk, shown(number), *replied("a")], 1)
    assert [is_summary(message) for message in talk] == [True, False, False]
    labels = left_out_labels(talk[:1])
    assert len(labels) == MAX_LABELS
    assert labels[-1] == f"[{MAX_LABELS + 3}.png, image/png, 1 bytes]"


def test_an_old_query_keeps_its_files() -> None:
    talk = [shown(1), *replied("a", "c1"), *replied("b", "c2"), *replied("c", "c3")]
    assert sliding_window(talk, 1)[0] == shown(1)


def test_results_left_out_name_their_files() -> None:
    file = Media(b"1", "image/png")
    call, _ = replied("a", "c1")
    talk = [user("1"), call, ChatMessage("tool", file.label, tool_call_id="c1", files=[file]), *replied("b"), user("2")]
    compact = without_tool_results(talk, 1)
    assert compact[2].content == f"[a result of {len(file.label)} characters, left out with {file.label}]"
    assert compact[2].files == ()


def test_summaries_and_extracts_name_files() -> None:
    made = summary("A dot.", left_out_labels([shown(1)]))
    assert "left out: [1.png, image/png, 1 bytes]" in made.content
    assert left_out_labels([made]) == ["[1.png, image/png, 1 bytes]"]
    assert extract([shown(1)]) == "user: What is 1? [1.png, image/png, 1 bytes]"
    assert sliding_window([made, *replied("a"), shown(2), *replied("b")], 1)[0] == made
