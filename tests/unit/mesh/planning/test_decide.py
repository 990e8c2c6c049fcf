"""How it is decided whether a query is planned."""

from __future__ import annotations

import time

import pytest

from archon_mesh.planning import TaskMode, decide
from archon_mesh.planning.decide import Decision, decided_by
from tests.fixtures.plan_replies import subtask
from tests.unit.mesh.planning.workers import plan

TRAVEL = {"book_flight": "Books a flight.", "book_hotel": "Books a room.", "search": "Searches the web."}


@pytest.mark.parametrize(
    ("query", "mode", "reason"),
    [
        ("What is the population of Tokyo?", "direct", "the query is one step"),
        ("Book a hotel in Rome", "direct", "the query is one step"),
        ("Search for a hotel", "direct", "the query is one step"),
        ("Search for bread and butter", "direct", "the query is one step"),
        ("Book a hotel and a room", "direct", "the query is one step"),
        ("If it rains then stay home", "direct", "the query is one step"),
        ("", "direct", "the query is one step"),
        ("Plan a trip to Rome", "planned", '"plan" asks for several steps'),
        ("Please compare two cities", "planned", '"compare" asks for several steps'),
        ("Find a hotel and then book it", "planned", "the query has 2 steps"),
        ("Book a flight to Rome and a hotel", "planned", "the query is for book_flight and for book_hotel"),
        ("A trip to Rome: flight, hotel", "planned", "the query is for book_flight and for book_hotel"),
    ],
)
def test_a_query_of_several_steps_is_planned(query: str, mode: str, reason: str) -> None:
    assert decide(query, (), TRAVEL) == Decision(TaskMode(mode), reason)


def test_other_agents_take_part_if_there_are_any() -> None:
    decision = decide("15 * 24, and facts about 360", ["historian"])
    assert decision.mode is TaskMode.SEVERAL_AGENTS
    assert decide("What is 15 * 24?", ["historian"]).mode is TaskMode.DIRECT


def test_several_agents_are_those_that_the_plan_names() -> None:
    decision = Decision(TaskMode.SEVERAL_AGENTS, "why")
    assert decided_by(plan(subtask("1")), decision).mode is TaskMode.PLANNED
    assert decided_by(plan(subtask("1", role="poet")), decision).reason == "why; the plan gives subtasks to poet"


@pytest.mark.parametrize("query", ["a, " * 100_000, "flight and " * 20_000, "x" * 1_000_000])
def test_a_long_query_is_decided_in_seconds(query: str) -> None:
    started = time.process_time()
    decide(query, (), TRAVEL)
    assert time.process_time() - started < 20
