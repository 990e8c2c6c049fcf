"""Puts faults into the SDKs, and tells which of them the scenarios catch: `python -m tests.conformance.mutate LANGUAGE
[NAME...]`. With --search a mutant that survives its scenario meets all of them; --check only compares the table with the
sources.

Each mutant is an edit in a copy of the built SDK, which is compiled again. The copies are in .mutants/sdk."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.conformance import mutants
from tests.conformance.mutants import Mutant
from tests.conformance.sdks import SDKS, Sdk, sdk
from tests.conformance.subjects import run
from tests.interop import cache
from tests.interop.builds import ROOT

AT_ONCE: Final = 2
"""Mutants that are compiled and tried at a time."""

LATENESS: Final = "the first line"
"""Part of the fault of a subject that has not started."""


class Verdict(StrEnum):
    """The outcome of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    NOT_BUILT = "does not build"
    NOT_STARTED = "does not start"


@dataclass(frozen=True, slots=True)
class Tried:
    """A mutant that was tried. `why` is the fault that the runner names, or the messages of the compiler."""

    mutant: Mutant
    verdict: Verdict
    why: str
    seconds: float

    def __str__(self) -> str:
        lines = [line for line in self.why.strip().splitlines() if line] or [""]
        shown = "\n    ".join(lines) if self.verdict is Verdict.NOT_BUILT else lines[0][:200]
        return f"{self.verdict:<14} {self.seconds:5.1f} s  {self.mutant.name}  [{self.mutant.caught_by}]  {shown}"


class Copy:
    """A copy of a built SDK, in which one mutant at a time is compiled."""

    def __init__(self, of: Sdk, number: int) -> None:
        self.sdk = of
        self.folder = ROOT / ".mutants" / "sdk" / of.name / str(number)

    def make(self) -> None:
        """Copies the build, which is made if necessary, and links to what takes much room. Raises RuntimeError."""
        build = self.sdk.build
        for _ in range(3):
            build.run()
            with cache.lock(build.target.with_name(f"{build.folder}.lock")):
                if build.is_current():  # another clone with these tools may have built its own sources meanwhile
                    shutil.rmtree(self.folder, ignore_errors=True)
                    shutil.copytree(build.target, self.folder, ignore=self._linked, symlinks=True)
                    for path in self.sdk.linked:
                        (self.folder / path).symlink_to(build.target / path)
                    return
        raise RuntimeError(f"{build.folder} is built by another clone all the time")

    def _linked(self, folder: str, names: list[str]) -> set[str]:
        linked = {self.sdk.build.target / path for path in self.sdk.linked}
        return {name for name in names if Path(folder) / name in linked}

    @property
    def subject(self) -> str:
        """The command of the subject."""
        return shlex.join(self.sdk.subject(self.folder / self.sdk.build.result))

    async def try_(self, mutant: Mutant, *, search: bool = False) -> Tried:
        """Compiles a mutant, and runs its scenario. The file has its content again afterwards."""
        began = time.monotonic()
        file = self.folder / mutant.file
        before = file.read_text()
        try:
            file.write_text(mutant.applied(before))
            try:
                await asyncio.to_thread(self.sdk.again, self.folder, mutant.file)
            except RuntimeError as error:
                return Tried(mutant, Verdict.NOT_BUILT, str(error), time.monotonic() - began)
            verdict, why = await self.scenarios(mutant, search)
            return Tried(mutant, verdict, why, time.monotonic() - began)
        finally:
            file.write_text(before)

    async def scenarios(self, mutant: Mutant, search: bool) -> tuple[Verdict, str]:
        """Runs the scenario of a mutant, and all of them if it survives and `search` is set."""
        transport, security = mutants.place(mutant.caught_by)
        report = await run(mutant.caught_by, subject=self.subject, transport=transport, security=security)
        if report.failed:
            fault = report.failed[0].fault
            return (Verdict.NOT_STARTED if LATENESS in fault else Verdict.CAUGHT), fault
        if not search:
            return Verdict.SURVIVED, ""
        report = await run(subject=self.subject, transport=transport, security=security, pace=2.0)
        failed = sorted({each.case.scenario.name for each in report.failed})
        return Verdict.SURVIVED, f"others fail: {', '.join(failed) or 'none'}"

    async def unchanged(self, chosen: Sequence[Mutant]) -> str:
        """Runs the scenarios of the mutants against the SDK as it is; returns the report if one fails, else nothing."""
        await asyncio.to_thread(self.sdk.again, self.folder, chosen[0].file)
        for where in sorted({mutants.place(mutant.caught_by) for mutant in chosen}):
            names = {mutant.caught_by for mutant in chosen if mutants.place(mutant.caught_by) == where}
            transport, security = where
            report = await run(*names, subject=self.subject, transport=transport, security=security, pace=2.0)
            if not report.passed:
                return report.text()
        return ""


async def try_all(
    of: Sdk, chosen: Sequence[Mutant], *, search: bool = False, show: Callable[[Tried], None] = lambda _: None
) -> list[Tried]:
    """Tries mutants, some at a time. Raises RuntimeError if the SDK does not build, or fails a scenario without a fault."""
    copies = [Copy(of, number) for number in range(min(AT_ONCE, len(chosen)))]
    for each in copies:
        await asyncio.to_thread(each.make)
    if failed := await copies[0].unchanged(chosen):
        raise RuntimeError(f"scenarios fail without a fault:\n{failed}")
    waiting, tried = list(reversed(chosen)), []

    async def work(copy: Copy) -> None:
        while waiting:
            outcome = await copy.try_(waiting.pop(), search=search)
            tried.append(outcome)
            show(outcome)

    async with asyncio.TaskGroup() as group:
        for each in copies:
            group.create_task(work(each))
    return tried


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if each chosen mutant is caught, 1 if one is not, 2 if the table or the command is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.mutate")
    parser.add_argument("language", choices=[each.name for each in SDKS])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--search", action="store_true", help="a mutant that survives meets all scenarios")
    parser.add_argument("--check", action="store_true", help="only compare the table with the sources")
    options = parser.parse_args(arguments)
    of, table = sdk(options.language), mutants.load(options.language)
    chosen = [mutant for mutant in table if not options.names or mutant.name in options.names]
    wrong = mutants.faults(table, of.build.source)
    wrong += [f"{name}: there is no such mutant" for name in set(options.names) - {mutant.name for mutant in table}]
    if wrong:
        print("\n".join(f"error: {text}" for text in wrong), file=sys.stderr)
        return 2
    if options.check:
        print(f"{of.name}: {len(table)} mutants")
        return 0
    began = time.monotonic()
    try:
        tried = asyncio.run(try_all(of, chosen, search=options.search, show=lambda outcome: print(outcome, flush=True)))
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    counts = Counter(outcome.verdict for outcome in tried)
    figures = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    print(f"{of.name}: {len(tried)} mutants: {figures}, in {time.monotonic() - began:.0f} s")
    return 0 if set(counts) <= {Verdict.CAUGHT} else 1


if __name__ == "__main__":
    sys.exit(main())
