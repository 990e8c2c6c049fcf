"""Shared memory among the messages for a model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.core.memory_graph import MemoryItem
from archon_mesh.core.messages import ChatMessage, with_shared_context

PROMPT, QUERY = ChatMessage("system", "You design."), ChatMessage("user", "Go.")


def item(source: str, content: str = "text", version: int = 1) -> MemoryItem:
    return MemoryItem(source, content, 0.0, version)


def contents(messages: list[ChatMessage]) -> list[str]:
    return [message.content for message in messages]


def test_items_are_system_messages_between_prompt_and_query() -> None:
    messages = with_shared_context([PROMPT, QUERY], [item("z", "one\ntwo"), item("a")])
    assert contents(messages) == [
        "You design.", "Shared context from z:\none\ntwo", "Shared context from a:\ntext", "Go."
    ]  # fmt: skip
    assert [message.role for message in messages] == ["system", "system", "system", "user"]


def test_items_are_tagged_with_their_source() -> None:
    shared = with_shared_context([PROMPT, QUERY], [item("a", version=3)])[1]
    assert shared.metadata["shared_memory"] is True
    assert shared.metadata["shared_memory_source"] == "a"


def test_without_a_prompt_items_come_before_system_messages() -> None:
    aware = ChatMessage("system", "You are coordinating.", metadata={"orchestrator_awareness": True})
    assert contents(with_shared_context([QUERY], [item("a")])) == ["Shared context from a:\ntext", "Go."]
    assert contents(with_shared_context([PROMPT, aware, QUERY], [item("a")])) == [
        "You design.", "Shared context from a:\ntext", "You are coordinating.", "Go."
    ]  # fmt: skip


def test_no_items_change_nothing() -> None:
    assert with_shared_context([PROMPT, QUERY], []) == [PROMPT, QUERY]
    assert with_shared_context([], []) == []


def test_newer_version_replaces_the_older_one_only() -> None:
    first = with_shared_context([PROMPT, QUERY], [item("a", "old", 1), item("b")])
    second = with_shared_context(first, [item("a", "new", 2), item("b")])
    assert contents(second)[1:3] == ["Shared context from a:\nnew", "Shared context from b:\ntext"]
    assert with_shared_context(second, [item("a", "old", 1), item("b")]) == second


def test_duplicate_source_has_one_message_of_its_newest_version() -> None:
    messages = with_shared_context([QUERY], [item("a", "new", 2), item("b"), item("a", "old", 1)])
    assert contents(messages)[:-1] == ["Shared context from a:\nnew", "Shared context from b:\ntext"]


def test_source_without_an_item_keeps_its_message() -> None:
    first = with_shared_context([PROMPT, QUERY], [item("a")])
    assert contents(with_shared_context(first, [item("b")]))[1:3] == [
        "Shared context from a:\ntext",
        "Shared context from b:\ntext",
    ]


def test_input_messages_are_not_modified() -> None:
    given_messages = [PROMPT, QUERY]
    with_shared_context(given_messages, [item("a")])
    assert given_messages == [PROMPT, QUERY]


items = st.lists(st.builds(item, st.sampled_from("abc"), st.text(), st.integers(1, 3)))


@given(items, items)
def test_inserting_again_adds_nothing(
    first: list[MemoryItem],
    second: list[MemoryItem],
) -> None:
    once = with_shared_context(with_shared_context([PROMPT, QUERY], first), second)
    assert with_shared_context(once, second) == once
    sources = [message.metadata.get("shared_memory_source") for message in once[1:-1]]
    assert sorted(map(str, sources)) == sorted({each.source_id for each in [*first, *second]})
    assert (once[0], once[-1]) == (PROMPT, QUERY)


def test_items_of_several_tasks_of_a_role_stand_side_by_side() -> None:
    def item(task_id: str, version: int, content: str) -> MemoryItem:
        return MemoryItem("writer", content, 0.0, version, task_id=task_id)

    first = with_shared_context([], [item("r.1", 1, "one"), item("r.2", 2, "two"), item("", 3, "three")])
    assert [message.content for message in first] == [
        "Shared context from writer (r.1):\none",
        "Shared context from writer (r.2):\ntwo",
        "Shared context from writer:\nthree",
    ]
    assert [message.metadata.get("shared_memory_task") for message in first] == ["r.1", "r.2", None]
    assert "shared_memory_task" not in first[2].metadata
    newer = with_shared_context(first, [item("r.2", 4, "newer"), item("r.1", 1, "the same version")])
    assert [message.content.splitlines()[1] for message in newer] == ["three", "newer", "one"]
