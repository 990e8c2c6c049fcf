"""What a soak measures of its processes and files, and how it tells it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.bench.flat import Limit, Sample, course
from tests.bench.soak_load import Tally

MB = 1024 * 1024
LIMITS: Mapping[str, tuple[str, Limit]] = {
    "rss": ("MB", Limit(growth=10.0, per_hour=10.0)),
    "threads": ("", Limit(growth=5.0, per_hour=5.0)),
    "fds": ("", Limit(growth=5.0, per_hour=5.0)),
}
TITLES = ("RSS or size in MB", "threads", "file descriptors")
LEAST_SAMPLES = 6


class Measures:
    """Samples by (process, its id, measure): a process that was started anew begins anew."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._series: dict[tuple[str, int, str], list[Sample]] = {}

    def sample(self, pids: Mapping[str, int]) -> None:
        """Once of everything; a process that has just ended is left out."""
        now = time.monotonic()
        for name, pid in pids.items():
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    found = (process.memory_info().rss / MB, process.num_threads(), process.num_fds())
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            for measure, value in zip(LIMITS, found, strict=True):
                self._series.setdefault((name, pid, measure), []).append((now, value))
        for name, path in self._files.items():
            sizes = [one.stat().st_size for one in path.parent.glob(f"{path.name}*") if one.exists()]
            self._series.setdefault((name, 0, "size"), []).append((now, sum(sizes) / MB))

    def table(self) -> tuple[list[str], list[str]]:
        """The lines of the table, and what isn't flat in it. Of a process that was started several times the line is
        that of the longest life, but all its lives are judged."""
        bad = []
        longest: dict[str, dict[str, list[Sample]]] = {}
        lives: dict[str, set[int]] = {}
        for (name, pid, measure), samples in self._series.items():
            lives.setdefault(name, set()).add(pid)
            if len(samples) > len(longest.setdefault(name, {}).get(measure, ())):
                longest[name][measure] = samples
            if measure in LIMITS and len(samples) >= LEAST_SAMPLES:
                found, (unit, limit) = course(samples), LIMITS[measure]
                if not found.is_flat(limit):
                    bad.append(
                        f"{name}: {measure} went from {found.first:.1f} to {found.last:.1f} {unit}, still rising by "
                        f"{found.per_hour:.1f} an hour"
                    )
        lines = [f"{'first, last, slope an hour':<28}" + "".join(f"{title:>28}" for title in TITLES)]
        for name, measures in longest.items():
            number = len(lives[name])
            shown = f"{name} ({number} lives)" if number > 1 else name
            told = [_told(samples) for samples in measures.values()]
            lines.append(f"{shown:<28}" + "".join(f"{text:>28}" for text in told))
        return lines, bad


def _told(samples: Sequence[Sample]) -> str:
    found = course(samples)
    return f"{found.first:.1f} {found.last:>8.1f} {found.per_hour:>+9.1f}"


def runs(tally: Tally, seconds: float) -> list[str]:
    """The lines about runs."""
    total = sum(tally.states.values())
    lines = [
        f"{total} runs in {seconds:.0f} s ({total / max(seconds, 1.0):.1f}/s): {_counts(tally.states)}",
        f"by way: {_counts(tally.kinds)}; {tally.retried} were dispatched more than once",
        f"time of a run: p50 {tally.quantile(0.5) * 1e3:.0f} ms, p99 {tally.quantile(0.99) * 1e3:.0f} ms, "
        f"longest {tally.quantile(1.0) * 1e3:.0f} ms",
    ]
    if tally.held_back:
        lines.append(f"{tally.held_back} were held back: too many were under way")
    return lines


def progress(tally: Tally, minute: int, killed: Sequence[str]) -> str:
    """The line of a minute."""
    failed = sum(tally.failures.values())
    return (
        f"minute {minute}: {sum(tally.states.values())} runs, {failed} failures, "
        f"p99 {tally.quantile(0.99) * 1e3:.0f} ms, killed so far {len(killed)}"
    )


def _counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counter.items(), key=lambda one: -one[1])) or "none"
