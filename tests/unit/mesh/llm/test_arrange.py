"""Messages for servers whose chat templates are strict."""

from __future__ import annotations

import pytest

from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.arrange import with_one_system_message


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("system:A user:q", "system:A user:q"),
        ("system:A system:B user:q", "system:A+B user:q"),
        ("user:q system:note", "user:q+note"),
        ("system:A user:q assistant:a tool:r system:note", "system:A user:q assistant:a tool:r+note"),
        ("user:q assistant:a system:note", "user:q assistant:a user:note"),
        ("user:q assistant:a system:n system:m user:r", "user:q assistant:a user:n+m user:r"),
        ("system:A", "system:A"),
        ("", ""),
    ],
)
def test_later_system_messages_join_what_stands_before_them(given: str, expected: str) -> None:
    pairs = [pair.split(":") for pair in given.split()]
    messages = [ChatMessage(role, content) for role, content in pairs]  # type: ignore[arg-type]
    arranged = with_one_system_message(messages)
    assert " ".join(f"{each.role}:{each.content}" for each in arranged).replace("\n\n", "+") == expected
