"""What a coordinating role is told of the edges among the others, to the letter."""

from __future__ import annotations

from archon_mesh.core.awareness import Awareness, awareness_chat_message, awareness_message, read_awareness
from archon_mesh.core.messages import ChatMessage

EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]
ORDER = ["requirements", "designer", "implementer"]


def test_the_message_has_these_lines_and_no_other() -> None:
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


def test_without_an_order_its_line_is_left_out_and_no_two_empty_lines_meet() -> None:
    assert awareness_message([("a", "b"), ("b", "a")], None) == (
        "You are coordinating sub-agents with dependencies.\n"
        "\n"
        "Dependency order (call upstream before downstream):\n"
        "  a -> b\n"
        "  b -> a\n"
        "\n"
        "Guideline: do not call an agent before its prerequisites have been executed."
    )


def test_without_edges_there_is_nothing_to_say() -> None:
    assert awareness_message([], ORDER) == ""
    assert awareness_message([], None) == ""


def test_edges_stay_in_the_order_given_each_once() -> None:
    text = awareness_message([("z", "y"), ("a", "b"), ("z", "y")], ["z", "y", "a", "b"])
    assert text.splitlines()[3:6] == ["  z -> y", "  a -> b", ""]


def test_it_is_a_system_message_with_its_tag() -> None:
    message = awareness_chat_message("text")
    assert message == ChatMessage("system", "text", metadata={"orchestrator_awareness": True})


def test_what_was_written_is_read_again() -> None:
    prompt, query = ChatMessage("system", "You coordinate."), ChatMessage("user", awareness_message(EDGES, ORDER))
    aware = awareness_chat_message(awareness_message(EDGES, ORDER))
    assert read_awareness([prompt, aware, query]) == Awareness(tuple(EDGES), tuple(ORDER))
    unordered = awareness_chat_message(awareness_message(EDGES, None))
    assert read_awareness([unordered]) == Awareness(tuple(EDGES), ())
    assert read_awareness([prompt, query]) is None
