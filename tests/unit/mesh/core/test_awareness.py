"""The exact text of the awareness message."""

from __future__ import annotations

from archon_mesh.core.awareness import Awareness, awareness_chat_message, awareness_message, read_awareness
from archon_mesh.core.messages import ChatMessage

EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]
ORDER = ["requirements", "designer", "implementer"]


def test_message_has_exactly_these_lines() -> None:
    assert awareness_message(EDGES, ORDER) == (
        "You are coordinating sub-agents with dependencies.\n"
        "\n"
        "Dependency order (call upstream before downstream):\n"
        "  requirements -> designer\n"
        "  requirements -> implementer\n"
        "  designer -> implementer\n"
        "\n"
        "Recommended execution order: requirements, designer, implementer\n"
        "\n"
        "Guideline: do not call an agent before its prerequisites have been executed."
    )


def test_without_an_order_its_line_and_an_empty_line_are_omitted() -> None:
    assert awareness_message([("a", "b"), ("b", "a")], None) == (
        "You are coordinating sub-agents with dependencies.\n"
        "\n"
        "Dependency order (call upstream before downstream):\n"
        "  a -> b\n"
        "  b -> a\n"
        "\n"
        "Guideline: do not call an agent before its prerequisites have been executed."
    )


def test_without_edges_the_message_is_empty() -> None:
    assert awareness_message([], ORDER) == ""
    assert awareness_message([], None) == ""


def test_edges_keep_their_order_without_duplicates() -> None:
    text = awareness_message([("z", "y"), ("a", "b"), ("z", "y")], ["z", "y", "a", "b"])
    assert text.splitlines()[3:6] == ["  z -> y", "  a -> b", ""]


def test_message_is_a_tagged_system_message() -> None:
    message = awareness_chat_message("text")
    assert message == ChatMessage("system", "text", metadata={"orchestrator_awareness": True})


def test_written_message_is_read_back() -> None:
    prompt, query = ChatMessage("system", "You coordinate."), ChatMessage("user", awareness_message(EDGES, ORDER))
    aware = awareness_chat_message(awareness_message(EDGES, ORDER))
    assert read_awareness([prompt, aware, query]) == Awareness(tuple(EDGES), tuple(ORDER))
    unordered = awareness_chat_message(awareness_message(EDGES, None))
    assert read_awareness([unordered]) == Awareness(tuple(EDGES), ())
    assert read_awareness([prompt, query]) is None
