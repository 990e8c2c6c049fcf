"""Searches seeds for those that the tests play: for each planted bug the first seed in which it is caught, and for each
course some seeds that together have every fault."""

from __future__ import annotations

import gc
import logging
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final, NamedTuple

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.check import Violation
from tests.simulation.course import run_seed
from tests.simulation.courses import COURSES, FAULTS

PLAYED: Final = 8
"""The number of seeds of each course that `make test` plays."""


def catches(name: str, seed: int) -> bool:
    """Returns whether a planted bug violates its line in this seed."""
    logging.disable(logging.CRITICAL)
    bug = BUGS[name]
    try:
        with pytest.MonkeyPatch.context() as patch:
            bug.plant(patch)
            run_seed(seed, **COURSES[bug.course])
    except Violation as violation:
        return re.search(bug.violation, str(violation)) is not None
    except Exception:  # noqa: BLE001 - a bug may break the course in other ways, too
        return False
    return False


def first_catch(seeds: range, name: str) -> int | None:
    """Returns the first seed in which a planted bug violates its line, or None."""
    for seed in seeds:
        if catches(name, seed):
            return seed
        gc.collect()
    return None


def bug_rows(pool: ProcessPoolExecutor, seeds: range) -> Iterator[str]:
    """Yields the rows of the table of planted bugs in docs/testing/simulation.md."""
    for (name, bug), seed in zip(BUGS.items(), pool.map(partial(first_catch, seeds), BUGS), strict=True):
        yield f"| {name} | {bug.line} | {bug.course} | {'none' if seed is None else seed} |"


class Candidate(NamedTuple):
    """A seed: the faults of the course that fire in it, the inputs that its engines took, and whether many of its runs
    fail."""

    faults: frozenset[str]
    inputs: int
    fails: bool


def candidate(course: str, seed: int) -> Candidate:
    """Plays a seed of a course."""
    logging.disable(logging.CRITICAL)
    outcome = run_seed(seed, **COURSES[course])
    fired = frozenset(fault for fault in FAULTS[course] if outcome.fired[fault])
    return Candidate(fired, outcome.inputs, outcome.states["COMPLETED"] <= 3 * outcome.states["FAILED"])


def cover(seeds: Mapping[int, Candidate]) -> list[int]:
    """Returns PLAYED seeds that together have every fault: those that add most for their inputs, then those in which most
    runs complete, of these the ones of the fewest inputs, which take the least time. Raises ValueError if more seeds are
    necessary."""
    chosen: list[int] = []
    left = frozenset[str]().union(*(found.faults for found in seeds.values()))
    while left:
        best = max(seeds, key=lambda seed: (len(seeds[seed].faults & left) / seeds[seed].inputs, -seed))
        chosen.append(best)
        left -= seeds[best].faults
    if len(chosen) > PLAYED:
        raise ValueError(f"{len(chosen)} seeds are necessary for every fault")
    others = sorted((found.fails, found.inputs, seed) for seed, found in seeds.items() if seed not in chosen)
    return sorted([*chosen, *(seed for _, _, seed in others[: PLAYED - len(chosen)])])


def seed_lines(pool: ProcessPoolExecutor, seeds: range) -> Iterator[str]:
    """Yields the items of `SEEDS` in courses.py. Raises ValueError if a fault of a course never fires."""
    for course, faults in FAULTS.items():
        fired = dict(zip(seeds, pool.map(partial(candidate, course), seeds, chunksize=5), strict=True))
        if silent := set(faults) - frozenset[str]().union(*(found.faults for found in fired.values())):
            raise ValueError(f"these faults never fired in the course {course!r}: {sorted(silent)}")
        yield f'    "{course}": ({", ".join(map(str, cover(fired)))}),'
