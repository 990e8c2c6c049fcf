"""`python -m tests.simulation.run --seeds 100000` plays many seeds on all cores, counts the faults, and stops at the
first failure. `--bugs` prints the first seed that catches each planted bug, `--faults` seeds that together have every
fault."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.simulation.course import Outcome, run_seed
from tests.simulation.courses import COURSES, course_of
from tests.simulation.search import bug_rows, seed_lines

CHUNK = 20
AHEAD = 3
"""The number of chunks per process that are queued at a time."""

PROGRESS_EVERY = 30.0


@dataclass
class Tally:
    """The sums of some seeds, up to the first failure."""

    passed: int = 0
    inputs: int = 0
    kinds: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    failed: str = ""

    def add(self, other: Tally) -> None:
        """Adds the tally of the seeds that follow."""
        self.passed, self.inputs, self.kinds = (
            self.passed + other.passed,
            self.inputs + other.inputs,
            self.kinds + other.kinds,
        )
        self.fired.update(other.fired)
        self.states.update(other.states)
        self.failed = self.failed or other.failed

    def tell(self) -> None:
        """Prints a histogram of the faults, and averages."""
        most = max(self.fired.values(), default=1)
        for name, count in self.fired.most_common():
            print(f"{count:>10,}  {'#' * max(1, 40 * count // most):<40}  {name}")
        print("runs:", ", ".join(f"{count:,} {name}" for name, count in self.states.most_common()))
        seeds = max(1, self.passed)
        print(f"a seed: {self.inputs / seeds:.0f} inputs to engines, {self.kinds / seeds:.1f} kinds of fault")


def attempt(seed: int, course: str) -> Outcome | str:
    """Plays a seed. Returns its outcome, or a description of its failure."""
    if logging.root.manager.disable < logging.CRITICAL:  # `disable` clears the caches of all loggers
        logging.disable(logging.CRITICAL)
    try:
        return run_seed(seed, **COURSES[course])
    except Exception as error:  # noqa: BLE001 - any failure is reported with its seed
        return f"seed {seed} ({course}): {type(error).__name__}: {error}"


def chunk(seeds: range, course: str | None = None) -> Tally:
    """Plays seeds of a course, or of all in turn, one after another, up to the first failure."""
    tally = Tally()
    for seed in seeds:
        outcome = attempt(seed, course or course_of(seed))
        if isinstance(outcome, str):
            tally.failed = outcome
            break
        tally.add(Tally(1, outcome.inputs, len(outcome.fired), outcome.fired, outcome.states))
    gc.collect()  # seeds collect young generations only, older garbage would accumulate
    return tally


def tallies(pool: ProcessPoolExecutor, jobs: int, seeds: range, course: str | None) -> Iterator[Tally]:
    """Yields the tallies in the order of seeds, so that the first failure is the lowest seed's."""
    waiting: deque[Future[Tally]] = deque()
    for first in range(seeds.start, seeds.stop, CHUNK):
        waiting.append(pool.submit(chunk, range(first, min(first + CHUNK, seeds.stop)), course))
        if len(waiting) >= AHEAD * jobs:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _begin() -> None:
    """Prepares a worker process: the parent handles Ctrl-C, and imported modules are not scanned for garbage."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--course", choices=COURSES, help="the course of every seed; otherwise they take turns")
    search = parser.add_mutually_exclusive_group()
    search.add_argument("--bugs", action="store_true", help="print the first seed that catches each planted bug")
    search.add_argument("--faults", action="store_true", help="print seeds that together have every fault")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    if not options.bugs and not options.faults:
        return play(seeds, options.jobs, options.course)
    with ProcessPoolExecutor(options.jobs, initializer=_begin) as pool:
        for line in (bug_rows if options.bugs else seed_lines)(pool, seeds):
            print(line, flush=True)
    return 0


def play(seeds: range, jobs: int, course: str | None) -> int:
    """Plays seeds up to the first failure, prints the counts of faults, and returns the exit code."""
    began = reported = time.monotonic()
    tally, stopped = Tally(), False
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may make a background job ignore it
    pool = ProcessPoolExecutor(jobs, initializer=_begin)
    try:
        for part in tallies(pool, jobs, seeds, course):
            tally.add(part)
            if tally.failed:
                break
            if (now := time.monotonic()) - reported >= PROGRESS_EVERY:
                reported, pace = now, tally.passed / (now - began)
                left = (len(seeds) - tally.passed) / pace / 60
                print(f"{tally.passed:,} seeds, {pace:.1f} a second, {left:.0f} min left", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        stopped = True
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    tally.tell()
    print(f"{tally.passed:,} seeds passed in {time.monotonic() - began:.1f} s{', stopped' if stopped else ''}")
    if tally.failed:
        print(tally.failed, flush=True)
    return 130 if stopped else int(bool(tally.failed))


if __name__ == "__main__":
    sys.exit(main())
