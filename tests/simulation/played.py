"""Seeds of one course that a test plays, and what must hold of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.simulation.courses import FAULTS, OFTEN
from tests.simulation.run import attempt

HINT = "if the engine's choices changed, choose other seeds: python -m tests.simulation.run --faults"


def assert_seeds_hold(course: str, seeds: Sequence[int]) -> None:
    """Plays seeds of a course. Raises AssertionError if one fails, a fault of the course never fires, or the runs do
    little."""
    fired: Counter[str] = Counter()
    states: Counter[str] = Counter()
    inputs = kinds = 0
    for seed in seeds:
        outcome = attempt(seed, course)
        assert not isinstance(outcome, str), outcome
        fired += outcome.fired
        states += outcome.states
        inputs, kinds = inputs + outcome.inputs, kinds + len(outcome.fired)
    silent = [fault for fault in FAULTS[course] if not fired[fault]]
    assert not silent, f"these faults never fired: {silent}; {HINT}"
    seldom = [fault for fault in OFTEN.get(course, ()) if fired[fault] <= len(seeds)]
    assert not seldom, f"these faults fired in less than most seeds: {seldom}"
    assert inputs >= 190 * len(seeds), "inputs to engines"
    assert kinds >= 3 * len(seeds), "kinds of fault"
    assert states["COMPLETED"] > 2 * states["FAILED"]
