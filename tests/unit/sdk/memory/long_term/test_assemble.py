"""The parts of a context and their budgets."""

from __future__ import annotations

import pytest

from archon.errors import InvalidArgument
from archon.memory.long_term.context import STALE_AFTER, Template, assemble, build_query, memory_line
from archon.memory.long_term.entry import FoundEntry
from archon.memory.long_term.summary import extract, summarize
from tests.fixtures.long_term_entries import entry


def found(*texts: str) -> list[FoundEntry]:
    return [FoundEntry(entry(text, role="user"), 0.9) for text in texts]


def count(text: str) -> int:
    """Counts words."""
    return len(text.split())


def test_a_memory_has_its_date_and_role() -> None:
    assert memory_line(entry("x", 1_700_000_000.0, role="user"), 1_700_000_060.0) == "[Memory from 2023-11-14, user] x"
    assert memory_line(entry("x", 0.0), 1.0) == "[Memory from 1970-01-01, unknown] x"


def test_memories_without_room_are_counted() -> None:
    context = assemble(found("one two three", "four five six"), 15, count_tokens=count)
    assert (len(context.memories), context.left_out) == (1, 1)


def test_a_stale_memory_is_marked_unless_it_is_a_preference() -> None:
    late = STALE_AFTER + 1.0
    assert memory_line(entry("x", 0.0, role="user"), late) == "[Memory from 1970-01-01, user, may be out of date] x"
    assert memory_line(entry("x", 0.0, type="preference"), late) == "[Memory from 1970-01-01, unknown] x"


def test_the_order_is_template_memories_turns_instruction() -> None:
    template = Template("SYSTEM", "WORKING", "INSTRUCTION")
    context = assemble(found("memory one"), 1_000, history=["old turn", "new turn"], template=template)
    lines = [line.partition("] ")[2] or line for line in context.text.splitlines()]
    assert lines == ["SYSTEM", "WORKING", "memory one", "old turn", "new turn", "INSTRUCTION"]


@pytest.mark.parametrize("budget", [1, 7, 20, 50, 100, 333])
def test_no_context_exceeds_its_budget(budget: int) -> None:
    many = [f"some turn with number {number}" for number in range(40)]
    template = Template("a system prompt " * 20, "working memory " * 10, "instruction " * 5)
    context = assemble(found(*many), budget, history=many, template=template, count_tokens=count)
    assert context.tokens <= budget


def test_the_newest_turns_and_best_memories_have_room() -> None:
    turns = [f"turn {number}" for number in range(100)]
    context = assemble(found(*(f"memory {number}" for number in range(100))), 100, history=turns, count_tokens=count)
    assert "turn 99" in context.text.splitlines()
    assert "turn 0" not in context.text.splitlines()
    assert [memory.content for memory in context.memories][:2] == ["memory 0", "memory 1"]


def test_what_the_history_leaves_goes_to_memories() -> None:
    memories = found(*(f"memory {number}" for number in range(100)))
    alone = assemble(memories, 100, count_tokens=count)
    beside = assemble(memories, 100, history=["one two three four five"] * 20, count_tokens=count)
    assert len(alone.memories) > len(beside.memories) >= 3


def test_an_instruction_outlives_a_long_template() -> None:
    context = assemble([], 100, template=Template("word " * 500, "", "Answer in French."), count_tokens=count)
    assert context.text.endswith("Answer in French.")


def test_a_budget_must_be_above_zero() -> None:
    with pytest.raises(InvalidArgument):
        assemble([], 0)


def test_a_query_has_the_last_two_turns() -> None:
    assert build_query("now", ["one", "two", "x" * 600]) == f"now\ntwo\n{'x' * 500}"


def test_an_extract_prefers_facts_and_importance() -> None:
    entries = [entry(f"hello there, number of words {'abcdefghij'[n % 10]}", float(n)) for n in range(40)]
    entries.append(entry("Ana pays 48,000 euros to Farol on 3 March 2026", 50.0))
    entries.append(entry("a plain but vital remark", 51.0, importance=1.0))
    lines = extract(entries).splitlines()
    assert len(lines) == 20
    assert lines[-2].endswith("Ana pays 48,000 euros to Farol on 3 March 2026")
    assert lines[-1].endswith("a plain but vital remark")


async def test_nothing_is_summarised_without_memories() -> None:
    async def never(_: str) -> str:
        raise AssertionError

    assert await summarize([], never) == ""
