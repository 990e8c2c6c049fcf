"""A conversation of many turns stays within a small window, and every fact told in it can still be asked for."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from archon_mesh.agent import Agent
from archon_mesh.agent.hooks.compaction import SUMMARY_PROMPT
from archon_mesh.core.compaction import broken_pairing
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.llm.base import estimate_input
from archon_mesh.llm.scripted import Response
from archon_mesh.memory.automatic import MemoryMiddleware, MemorySettings
from archon_mesh.memory.long_term import LongTermMemory, SqliteLongTermStore
from archon_mesh.tools import tool


@dataclass(frozen=True)
class Length:
    """Turns, facts, turns between two facts, turns until a fact is asked for, and tokens of the model's window, which
    has no room for as many turns: only the memory can give the fact."""

    turns: int
    facts: int
    between: int
    later: int
    window: int = 2_500


SHORT = Length(100, 20, 2, 49, window=1_500)
LONG = Length(2_000, 50, 19, 990) if os.environ.get("ARCHON_FAILURES") == "all" else Length(400, 50, 4, 189)
"""The conversations have 3,500, 14,000 and 70,000 tokens."""

PATIENCE = 120.0

_THINGS = ("locker", "parcel", "ticket", "invoice", "bicycle")
_TOPICS = ("the garden", "a novel", "the weather", "old maps", "bread", "a bridge", "chess", "the tide")


@tool
def lookup(number: int) -> str:
    """Looks up an order."""
    return f"Order {number} is on its way. " + "It was packed with care. " * 3


def script(seed: int, length: Length) -> dict[int, tuple[str, str]]:
    """Returns the turns that tell or ask for a fact: the query, and the value that an answer needs, if it asks."""
    rng = random.Random(seed)
    turns: dict[int, tuple[str, str]] = {}
    for number in range(length.facts):
        thing, value = f"{_THINGS[number % len(_THINGS)]} of {_name(number)}", str(rng.randrange(100_000, 999_999))
        told = 10 + number * length.between
        turns[told] = (f"By the way, the code of the {thing} is {value}.", "")
        turns[told + length.later + (number % 7 if length.between > 7 else 0)] = (
            f"What is the code of the {thing}?",
            value,
        )
    return turns


def _name(number: int) -> str:
    return f"{('Ada', 'Ben', 'Cleo', 'Dora', 'Emil', 'Finn', 'Gita', 'Hugo', 'Ines', 'Jara')[number // 5]}"


@pytest.mark.timeout(900)  # a search and a store for each turn: minutes on a loaded machine
@pytest.mark.parametrize(
    "length", [SHORT, pytest.param(LONG, marks=pytest.mark.search)], ids=lambda length: str(length.turns)
)
async def test_every_fact_of_a_long_conversation_is_within_reach(tmp_path: Path, length: Length) -> None:
    # No limit of time: a loaded machine must not look like a memory that is down.
    async with LongTermMemory(SqliteLongTermStore(tmp_path / "long_term.db"), timeout=PATIENCE) as memory:
        course = await converse(MemoryMiddleware(memory, MemorySettings(budget=length.window), limit=PATIENCE), length)
    assert (course.asked, course.missed) == (length.facts, [])
    assert max(course.sizes) <= length.window
    assert course.summaries > length.turns // 100, "the test needs a window that is too small"
    assert course.summaries <= 0.3 * len(course.sizes)


@dataclass
class Course:
    """The tokens of each request, the number of summaries and of questions, and the questions whose request did not
    have the fact."""

    sizes: list[int] = field(default_factory=list)
    summaries: int = 0
    asked: int = 0
    missed: list[str] = field(default_factory=list)


async def converse(middleware: MemoryMiddleware, length: Length) -> Course:
    """Has the conversation."""
    course = Course()
    sizes = course.sizes

    def reply(request: ModelRequest) -> Response:
        if request.messages[0].content.startswith(SUMMARY_PROMPT):
            course.summaries += 1
            return "The user and the assistant chatted."  # a summary that keeps no fact by itself
        sizes.append(estimate_input(request))
        assert broken_pairing([each for each in request.messages if each.role != "system"]) == ""
        last = request.messages[-1]
        if last.role == "user" and last.content.startswith("Where is order"):
            return ToolCall("1", "lookup", '{"number": 7}')
        return f"Noted, and thank you for telling me. {_TOPICS[len(sizes) % 8].capitalize()} is next."

    model = ScriptedModel(reply)
    agent = Agent("clerk", system_prompt="You chat.", model=model, tools=[lookup], user_id="ana")
    agent.use(middleware.compaction(length.window), middleware)
    turns = script(7, length)
    for number in range(length.turns):
        topics = f"{_TOPICS[number % 8]} and {_TOPICS[number // 8 % 8]}"
        filler = f"Where is order {number}?" if number % 9 == 0 else f"Tell me more about {topics}, and then stop."
        query, value = turns.get(number, (filler, ""))
        await agent.run_async(query)
        if value:
            course.asked += 1
            if not any(value in message.content for message in model.requests[-1].messages):
                course.missed.append(query)
        model.requests.clear()
    return course
