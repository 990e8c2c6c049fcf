"""Messages for servers whose chat templates are strict."""

from __future__ import annotations

import pytest

from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm.servers import find_profile
from archon_mesh.llm.servers.arrange import GO_ON, arrange, short_id


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("system:A user:q", "system:A user:q"),
        ("system:A system:B user:q", "system:A+B user:q"),
        ("user:q system:note", "user:q+note"),
        ("system:A user:q assistant:a tool:r system:note", "system:A user:q assistant:a tool:r+note"),
        ("user:q assistant:a system:note", "user:q assistant:a user:note"),
        ("user:q assistant:a system:n system:m user:r", "user:q assistant:a user:n+m+r"),
        ("user:q user:r", "user:q+r"),
        ("system:A", "system:A"),
        ("", ""),
    ],
)
def test_later_system_messages_join_what_stands_before_them(given: str, expected: str) -> None:
    assert arranged(given, system_messages="one") == expected


def arranged(given: str, **keys: str) -> str:
    pairs = [pair.split(":") for pair in given.split()]
    messages = [ChatMessage(role, content) for role, content in pairs]  # type: ignore[arg-type]
    profile = find_profile("http://127.0.0.1/v1", "m", {"last_role": "any", **keys})
    return " ".join(f"{each.role}:{each.content}" for each in arrange(messages, profile)).replace("\n\n", "+")


def test_a_server_may_take_several_system_messages_at_the_beginning_or_anywhere() -> None:
    given = "system:A system:B user:q system:note assistant:a user:r"
    assert arranged(given, system_messages="first") == "system:A system:B user:q+note assistant:a user:r"
    assert arranged(given, system_messages="any") == given


def test_a_conversation_that_ends_with_an_assistants_message_gets_a_users() -> None:
    assert arranged("user:q assistant:a", last_role="user") == f"user:q assistant:a user:{GO_ON}"
    assert arranged("user:q assistant:a", last_role="any") == "user:q assistant:a"
    assert arranged("user:q", last_role="user") == "user:q"


def test_ids_of_nine_characters_are_the_same_in_a_call_and_its_result() -> None:
    call = ChatMessage("assistant", tool_calls=(ToolCall("call_abc-123", "t", "{}"), ToolCall("abcDEF123", "t", "{}")))
    result = ChatMessage("tool", "r", tool_call_id="call_abc-123")
    profile = find_profile("https://api.mistral.ai/v1", "mistral-large")
    sent = arrange([ChatMessage("user", "q"), call, result], profile)
    ids = [each.id for each in sent[1].tool_calls]
    assert ids == [sent[2].tool_call_id, "abcDEF123"]
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert short_id("call_1") != short_id("call_2")
