"""The report of chaos for people: a table of the faults, the runs by their outcome, and the findings."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path
from typing import Final

from google.protobuf import text_format

from tests.chaos.faults import HOW, KINDS, QUORUM, Fault
from tests.chaos.journal import archive
from tests.chaos.mesh import ChaosMesh
from tests.chaos.reign import Outcome

SHOWN: Final = 20
"""The maximum number of findings that the report lists."""


def summary(outcome: Outcome, seed: int) -> str:
    """Formats the report as several lines."""
    fates = Counter(run.state.name.lower() for run in outcome.runs)
    reasons = Counter(run.failure.reason for run in outcome.runs if run.failure is not None)
    taken_over = sum(run.epoch > 1 for run in outcome.runs)
    again = sum(max(0, task.attempt - 1) for run in outcome.runs for task in run.tasks.values())
    tasks = sum(len(run.tasks) for run in outcome.runs)
    took = sorted(course.took for course in outcome.courses if course.ended) or [0.0]
    lines = [
        f"{outcome.rounds} rounds in {outcome.seconds:.0f} s (seed {seed}), two overlapping faults in "
        f"{outcome.overlapping}, {outcome.struck.total()} faults:",
        "",
        *_faults(outcome.struck),
        "",
        f"in flight when a round began: {min(outcome.in_flight, default=0)} to {max(outcome.in_flight, default=0)} runs",
        f"went on after the last heal within: {max(outcome.healed, default=0.0):.1f} s, half of the rounds "
        f"{statistics.median(outcome.healed or [0.0]):.1f} s",
        f"runs: {len(outcome.runs):,}: {_counts(fates)}" + (f" ({_counts(reasons)})" if reasons else ""),
        f"tasks: {tasks:,}, attempts made again: {again:,}; runs that changed hands: {taken_over:,}",
        f"longest run: {took[-1]:.1f} s; half took at most {statistics.median(took):.1f} s",
        f"submits tried again: {_counts(outcome.refused) or 'none'}",
        f"violations: {len(outcome.findings)}",
    ]
    lines += [f"  {finding.run_id} {finding.what[:500]}" for finding in outcome.findings[:SHOWN]]
    return "\n".join(lines)


def _faults(struck: Counter[Fault]) -> list[str]:
    width = max(map(len, KINDS))
    rows = ["  " + " " * width + "".join(f"{how:>16}" for how in HOW)]
    rows += [f"  {kind:<{width}}" + "".join(f"{struck[Fault(how, kind)]:>16}" for how in HOW) for kind in KINDS]
    return [*rows, f"  etcd, {QUORUM}: {struck[Fault(QUORUM, 'etcd member')]}"]


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common())


async def keep(outcome: Outcome, mesh: ChaosMesh) -> Path:
    """Writes the journal of each run that a finding names, and what its watchers saw, into a folder beside the logs."""
    folder = mesh.home / "violations"
    folder.mkdir(exist_ok=True)
    ledger = mesh.ledger.read_text().splitlines()
    async with archive(mesh.dsn) as stored:
        for run_id in {finding.run_id for finding in outcome.findings if finding.run_id}:
            run = await stored.run(run_id)
            parts = [finding.what for finding in outcome.findings if finding.run_id == run_id]
            parts += ["", f"== journal: epoch {run.epoch}, ended {run.ended}, requests {run.request_ids}"]
            parts += [text_format.MessageToString(event, as_one_line=True) for event in run.events]
            parts += ["", "== ledger", *(line for line in ledger if run_id in line)]
            for course in outcome.courses:
                if course.run_id == run_id:
                    parts += ["", f"== a watcher saw {[event.seq for event in course.events]}"]
            (folder / f"{run_id}.txt").write_text("\n".join(parts) + "\n")
    return folder
