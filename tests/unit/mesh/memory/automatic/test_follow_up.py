"""Which queries are searched together with the newest turns."""

from __future__ import annotations

import pytest

from archon_mesh.memory.automatic.recall import is_follow_up


@pytest.mark.parametrize("query", ["Its population?", "And in winter?", "What did she say about the contract in May?"])
def test_a_short_query_or_a_pronoun_is_a_follow_up(query: str) -> None:
    assert is_follow_up(query)


def test_a_query_that_names_its_subject_is_no_follow_up() -> None:
    assert not is_follow_up("What is the population of Tokyo?")
