"""Steps of a query, by rules of text."""

from __future__ import annotations

import pytest

from archon_mesh.engine.plan import MAX_SUBTASKS
from archon_mesh.engine.plan.split_query import split_query


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        ("What is the capital of France?", [("What is the capital of France?", ())]),
        ("Find bread and butter", [("Find bread and butter", ())]),
        ("15*24, and facts about 360", [("15*24", ()), ("facts about 360", ())]),
        ("Calculate 15 * 24 and find facts about 360", [("Calculate 15 * 24", ()), ("find facts about 360", ())]),
        ("Find a hotel and then book it", [("Find a hotel", ()), ("book it", (0,))]),
        (
            "Find a flight; find a hotel; then write a summary.",
            [("Find a flight", ()), ("find a hotel", ()), ("write a summary", (1,))],
        ),
        ("Search for flights and book it", [("Search for flights", ()), ("book it", (0,))]),
        ("1. Load the data\n2. Draw a chart", [("Load the data", ()), ("Draw a chart", (0,))]),
        ("Find a hotel. Compare prices.", [("Find a hotel", ()), ("Compare prices", ())]),
        ("", []),
        ("and", [("and", ())]),
    ],
)
def test_a_query_is_split_into_steps(query: str, steps: list[tuple[str, tuple[int, ...]]]) -> None:
    assert [(each.text, each.after) for each in split_query(query)] == steps


def test_as_many_steps_as_the_limit_stay_apart() -> None:
    steps = split_query(" ".join(f"Find {number}." for number in range(MAX_SUBTASKS)))
    assert [each.after for each in steps] == [()] * MAX_SUBTASKS


def test_steps_beyond_the_limit_are_part_of_the_last_one() -> None:
    steps = split_query(" ".join(f"Find {number}." for number in range(25)))
    assert len(steps) == MAX_SUBTASKS
    assert steps[-1].text == "Find 19 Find 20 Find 21 Find 22 Find 23 Find 24"
    assert steps[-1].after == (MAX_SUBTASKS - 2,)
