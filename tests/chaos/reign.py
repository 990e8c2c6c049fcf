"""The rounds of chaos: each applies faults under load, heals them, and waits until the mesh completes new runs. Finally
the journal is validated."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from archon_mesh.engine import RunState
from tests.chaos.faults import Dealer, Fault, strike
from tests.chaos.journal import Ledger, archive
from tests.chaos.load import MixedLoad
from tests.chaos.mesh import ChaosMesh
from tests.chaos.validator import Finding, validate
from tests.failures.load import Course, Load
from tests.fixtures.waiting import eventually, until

IN_FLIGHT: Final = 8
"""The minimum number of runs in progress when a round begins."""

CALLERS: Final = 14
"""The number of concurrent callers; each submits a run, watches it to its end, and submits the next."""

FRESH: Final = 3
"""The number of runs submitted after the last heal that must end before the next round."""

ON_WITHIN: Final = 60.0
ENDED_WITHIN: Final = 90.0
EVERY: Final = 10
"""Rounds between two lines of progress."""


@dataclass
class Outcome:
    """The counts, runs and findings of a series of rounds."""

    rounds: int = 0
    seconds: float = 0.0
    struck: Counter[Fault] = field(default_factory=Counter)
    overlapping: int = 0
    in_flight: list[int] = field(default_factory=list)
    """The number of runs in progress at the start of each round."""

    healed: list[float] = field(default_factory=list)
    """Seconds from the last heal of each round until the mesh had completed new runs."""

    courses: list[Course] = field(default_factory=list)
    runs: list[RunState] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


class Stuck(Exception):
    """The mesh completes no new runs, or a process ended that no fault had ended."""


class Reign:
    """Applies chaos to a mesh that is up. `tell` receives lines of progress for people."""

    def __init__(self, mesh: ChaosMesh, seed: int, tell: Callable[[str], None]) -> None:
        self.outcome = Outcome()
        self._mesh = mesh
        self._dice = random.Random(seed)
        self._tell = tell

    async def last(self, rounds: int) -> Outcome:
        """Runs `rounds` rounds, fewer if the mesh stops completing runs, and validates the journal afterwards."""
        began, outcome = time.monotonic(), self.outcome
        dealer = Dealer(self._dice, self._mesh.targets)
        async with MixedLoad(self._mesh.clients, in_flight=CALLERS) as load:
            outcome.courses, outcome.refused = load.courses, load.refused
            try:
                for _ in range(rounds):
                    await self._round(dealer, load)
                    outcome.rounds += 1
                    if outcome.rounds % EVERY == 0 or outcome.rounds == rounds:
                        self._progress(rounds, time.monotonic() - began)
            except Stuck as stuck:
                outcome.findings.append(Finding("", f"V7: in round {outcome.rounds + 1}: {stuck}"))
                self._tell(f"stuck: {stuck}")
        outcome.seconds = time.monotonic() - began
        outcome.findings += [Finding("", wrong) for wrong in load.wrong]
        outcome.findings += [Finding(course.run_id, "V1: its watcher never saw its end") for course in load.open]
        await self._look_through(self._mesh.ledger)
        return outcome

    async def _round(self, dealer: Dealer, load: Load) -> None:
        await self._until(lambda: len(load.open) >= IN_FLIGHT, f"{IN_FLIGHT} runs in flight")
        self.outcome.in_flight.append(len(load.open))
        blows = dealer.round()
        self.outcome.struck.update(blow.fault for blow in blows)
        self.outcome.overlapping += len(blows) > 1
        await asyncio.gather(*(strike(blow, self._dice) for blow in blows))
        healed = time.monotonic()

        def on() -> bool:
            return sum(course.began > healed and course.ended > 0 for course in load.courses[-100:]) >= FRESH

        await self._until(on, f"{FRESH} new runs after {', '.join(map(str, blows))}")
        self.outcome.healed.append(time.monotonic() - healed)
        if died := self._mesh.died():
            raise Stuck(f"ended without a fault that ends them: {', '.join(died)}")

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            await until(holds, ON_WITHIN)
        except TimeoutError:
            raise Stuck(f"no {what} within {ON_WITHIN:g} s") from None

    async def _look_through(self, ledger: Path) -> None:
        async with archive(self._mesh.dsn) as stored:

            async def ended() -> bool:
                return not await stored.open_runs()

            with suppress(TimeoutError):  # those that never end are findings
                await eventually(ended, ENDED_WITHIN)
            findings, self.outcome.runs = await validate(stored, self.outcome.courses, Ledger.read(ledger))
        self.outcome.findings += findings

    def _progress(self, rounds: int, seconds: float) -> None:
        outcome = self.outcome
        ended = [course for course in outcome.courses if course.ended]
        longest = max((course.took for course in ended), default=0.0)
        self._tell(
            f"round {outcome.rounds:>4} of {rounds}, {seconds:4.0f} s: {outcome.struck.total()} faults, "
            f"{len(ended):,} runs ended, {len(outcome.courses) - len(ended)} in flight, the longest took {longest:.1f} s"
        )
