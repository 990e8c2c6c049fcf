"""The engine decides random courses as it has decided them before: a replica of a new revision goes on with runs that an
earlier one began, and a checker of journals decides stored inputs again."""

from __future__ import annotations

import pytest

from tests.unit.mesh.engine.courses import RECORDED, SEEDS, text_of


@pytest.mark.parametrize("seed", SEEDS)
def test_a_course_is_decided_as_before(seed: int) -> None:
    assert text_of(seed).splitlines() == (RECORDED / f"{seed}.txt").read_text().splitlines()


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(100, 2_000), marks=pytest.mark.search)], ids=str)
def test_no_course_opens_other_effects_than_a_restart_would_find(seeds: range) -> None:
    assert all(map(text_of, seeds)), "each step compares them"
