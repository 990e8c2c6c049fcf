"""Runs cases against a subject: side by side, with as few processes as the cases allow."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archon.conformance.bench import Bench, group_key
from archon.conformance.case import Case
from archon.conformance.certificates import TestAuthority
from archon.conformance.play import Play, ScenarioFailed
from archon.conformance.play_agent import AgentPlay
from archon.conformance.play_client import ClientPlay
from archon.conformance.subject import SubjectFailed

PROCESSES: Final = 12
"""Subjects with a process of their own at a time: most of them wait."""

STARTS: Final = 3
"""Subjects that start at a time."""

AT_ONCE: Final = 8
"""Scenarios at a time on one shared subject."""

LONGEST: Final = 60.0
"""Seconds that a scenario may take."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case has ended: `fault` is empty if it has passed."""

    case: Case
    fault: str
    seconds: float


class Suite:
    """Cases against one subject, which `command` starts. `pace` multiplies the times within which things must happen;
    `patience` is the seconds within which a subject must be ready."""

    def __init__(
        self, command: Sequence[str], *, pace: float = 1.0, patience: float = 20.0, processes: int = PROCESSES
    ) -> None:
        self._command = command
        self._pace = pace
        self._patience = patience * pace
        self._processes = asyncio.Semaphore(processes)
        self._starting = asyncio.Semaphore(min(processes, STARTS))
        self._number = 0
        self._folder = Path()
        self._authority: TestAuthority | None = None
        self._outcomes: list[Outcome] = []
        self._on_outcome: Callable[[Outcome], object] = lambda _: None

    async def run(
        self, cases: Sequence[Case], *, on_outcome: Callable[[Outcome], object] = lambda _: None
    ) -> list[Outcome]:
        """Runs cases, and returns their outcomes in the order of the cases."""
        self._on_outcome = on_outcome
        with tempfile.TemporaryDirectory(prefix="archon-conformance-", ignore_cleanup_errors=True) as folder:
            self._folder = Path(folder)
            self._authority = TestAuthority(self._folder / "certificates")
            shared: dict[str, list[Case]] = {}
            for case in cases:
                if not case.scenario.own:
                    shared.setdefault(group_key(case), []).append(case)
            groups = sorted(shared.values(), key=len, reverse=True)
            async with asyncio.TaskGroup() as tasks:
                for group in groups:
                    tasks.create_task(self._shared(group))
                own = [case for case in cases if case.scenario.own]
                for case in sorted(own, key=_waits, reverse=True):
                    tasks.create_task(self._own(case))
        order = {case.name: number for number, case in enumerate(cases)}
        return sorted(self._outcomes, key=lambda outcome: order[outcome.case.name])

    def _bench(self, case: Case) -> Bench:
        self._number += 1
        authority = self._authority if case.security == "mtls" else None
        return Bench(self._command, case, self._folder / f"subject-{self._number}", authority, patience=self._patience)

    async def _shared(self, cases: list[Case]) -> None:
        bench = self._bench(cases[0])
        try:
            async with self._starting:
                await bench.start()
        except SubjectFailed as error:
            await bench.stop()
            for case in cases:
                self._note(Outcome(case, str(error), 0.0))
            return
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(case: Case) -> None:
            async with limit:
                await self._play(case, bench)

        try:
            await asyncio.gather(*(one(case) for case in cases if not case.scenario.heavy))
            for case in cases:
                if case.scenario.heavy:
                    await self._play(case, bench)
        finally:
            await bench.stop()

    async def _own(self, case: Case) -> None:
        async with self._processes:
            bench = self._bench(case)
            try:
                async with self._starting:
                    await bench.start()
                await self._play(case, bench)
            except SubjectFailed as error:
                self._note(Outcome(case, str(error), 0.0))
            finally:
                await bench.stop()

    async def _play(self, case: Case, bench: Bench) -> None:
        began = time.monotonic()
        self._number += 1
        play: Play | None = None
        fault = ""
        try:
            made = AgentPlay if case.scenario.mode == "agent" else ClientPlay
            play = made(case, bench, self._number, self._pace)
            async with asyncio.timeout(LONGEST * self._pace):
                await play.run()
        except ScenarioFailed as error:
            fault = str(error)
        except SubjectFailed as error:
            fault = str(error)
        except TimeoutError:
            fault = f"the scenario has not ended within {LONGEST:g} s"
        except Exception as error:  # noqa: BLE001 - a fault of one scenario must not end the others
            fault = f"the runner failed: {type(error).__name__}: {error}"
        finally:
            if play is not None:
                with suppress(Exception):
                    await play.close()
        if fault and bench.subject is not None and not bench.subject.running and "standard error" not in fault:
            fault += f"; the subject has ended; {bench.subject.log()}"
        self._note(Outcome(case, fault, time.monotonic() - began))

    def _note(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._on_outcome(outcome)


def _waits(case: Case) -> float:
    """About how many seconds a case waits: the longest begin first."""
    seconds = 0.0
    for step in case.scenario.steps:
        within = step.get("within", 0)
        seconds += float(step.get("for", 0)) + float(step.get("sleep", 0))
        seconds += float(within[-1] if isinstance(within, list) else within) / 2
    return seconds
