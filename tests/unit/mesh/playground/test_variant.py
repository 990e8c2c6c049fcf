"""Variants of a recorded prompt: their changes, and their files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, NotFound
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall
from archon_mesh.llm import ModelRequest, ToolSpec
from archon_mesh.playground import (
    Origin,
    Variant,
    parse_variant,
    read_variant,
    recorded_calls,
    variant_file,
    variant_text,
    write_variant,
)
from tests.fixtures.recorded_calls import RUN_ID, model_record

(CALL,) = recorded_calls(
    [
        model_record(
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Shared context from cook:\nsoup"},
            {"role": "user", "content": "Draw soup."},
            origins=[{"kind": "system_prompt"}, {"kind": "shared_context", "role": "cook"}, {"kind": "input"}],
            temperature=0.5,
        )
    ]
)
VARIANT = Variant.of(CALL)


def texts(variant: Variant) -> list[str]:
    return [message.content for message in variant.request.messages]


def places(variant: Variant) -> list[str]:
    return [change.place for change in variant.changes()]


def test_a_variant_begins_as_the_recorded_prompt() -> None:
    assert VARIANT.origin == Origin(RUN_ID, "designer", "t1", 1)
    assert (VARIANT.model, VARIANT.system, VARIANT.input, VARIANT.changes()) == ("m", 0, 2, [])


def test_changes_are_named_and_the_recorded_prompt_stays() -> None:
    variant = VARIANT.with_system("Be long.").replaced("soup", "bread").with_temperature(0.0).with_max_tokens(9)
    assert texts(variant) == ["Be long.", "Shared context from cook:\nbread", "Draw bread."]
    assert places(variant) == [
        "message 1 (system)",
        "message 2 (system)",
        "message 3 (user)",
        "temperature",
        "max_tokens",
    ]
    assert texts(VARIANT)[0] == "Be brief." and CALL.request.temperature == 0.5
    assert texts(VARIANT.with_input("Eat."))[2] == "Eat."
    assert texts(VARIANT.with_message(2, "x"))[1] == "x"


def test_a_prompt_without_a_system_message_gets_one() -> None:
    (call,) = recorded_calls([model_record({"role": "user", "content": "Draw."}, origins=[{"kind": "input"}])])
    variant = Variant.of(call).with_system("Be brief.")
    assert texts(variant) == ["Be brief.", "Draw."] and (variant.system, variant.input) == (0, 1)
    assert texts(variant.with_input("Eat.")) == ["Be brief.", "Eat."]


def test_signed_thinking_does_not_go_with_a_changed_text() -> None:
    message = ChatMessage("assistant", "soup", metadata={PROVIDER_STATE: {"signature": "s"}})
    variant = Variant("m", ModelRequest([message]))
    assert not variant.replaced("soup", "x").request.messages[0].metadata


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda: VARIANT.replaced("nothing", "x"), NotFound),
        (lambda: VARIANT.replaced("", "x"), InvalidArgument),
        (lambda: VARIANT.with_message(4, "x"), NotFound),
        (lambda: VARIANT.with_message(0, "x"), NotFound),
        (lambda: VARIANT.with_temperature(2.1), InvalidArgument),
        (lambda: VARIANT.with_temperature(float("nan")), InvalidArgument),
        (lambda: VARIANT.with_max_tokens(0), InvalidArgument),
        (lambda: Variant("m", CALL.request).with_input("x"), NotFound),
    ],
)
def test_a_change_of_nothing_is_refused(change: object, error: type[ArchonError]) -> None:
    assert callable(change)
    with pytest.raises(error):
        change()


LINES = st.text(
    st.sampled_from(["a", " ", "\n", "\t", "#", ":", "-", "'", '"', "é", "😀", "\x85", "\x07", "0", "~", "|"]),
    max_size=12,
)


@settings(max_examples=40)
@given(LINES, LINES)
def test_a_file_keeps_each_character(content: str, arguments: str) -> None:
    request = ModelRequest(
        [
            ChatMessage("user", content, metadata={PROVIDER_STATE: {"signature": arguments}}),
            ChatMessage("assistant", "", tool_calls=(ToolCall("1", "look", arguments),)),
        ],
        [ToolSpec("look", content, {"type": "object", "properties": {"12:30": {"type": "string"}}})],
        temperature=0.25,
        output_schema={"type": "object"},
    )
    variant = Variant("openai/m", request, Origin("r", "role", "t", 2), None, 0)
    assert parse_variant(variant_text(variant)) == variant


@pytest.mark.parametrize("name", ["v.yaml", "v.json"])
def test_a_file_is_private_and_reads_as_it_was(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    write_variant(VARIANT, file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_variant(file) == VARIANT
    assert file.read_text().startswith("{" if name.endswith("json") else "archon_variant: 1")


HEAD = "archon_variant: 1\nmodel: m\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("messages: []", "it has no `archon_variant`"),
        ("archon_variant: 2\nmodel: m", "has version 2"),
        ("archon_variant: 1\nmessages: [{role: user, content: x}]", "names no model"),
        (HEAD, "has no messages"),
        (HEAD + "messages: [{role: user, content: x}]\nprompt: y", "unknown key 'prompt'"),
        (HEAD + "messages: [{role: user, content: x}]\ninput: 2", "input must be the number of a message, from 1 to 1"),
        (HEAD + "messages: [{role: robot, content: x}]", "message 1 has the role 'robot'"),
        (HEAD + "messages: [{role: user, content: x}]\ntemperature: hot", "temperature is 'hot'"),
        (HEAD + "messages: [x", "is not YAML"),
        ('{"archon_variant": 1', "is not YAML"),
    ],
)
def test_a_text_that_is_no_variant_says_why(text: str, words: str) -> None:
    with pytest.raises((InvalidArgument, FailedPrecondition), match=f"v.yaml.*{words}"):
        parse_variant(text, "v.yaml")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_file, "MAX_BYTES", 10)
    (tmp_path / "v.yaml").write_text(HEAD)
    with pytest.raises(InvalidArgument, match="has more than 10 bytes"):
        read_variant(tmp_path / "v.yaml")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"absent\.yaml: No such file"):
        read_variant(tmp_path / "absent.yaml")
