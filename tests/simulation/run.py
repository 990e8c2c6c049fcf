"""python -m tests.simulation.run --seeds 100000: many seeds on all cores, and what fired; it stops at the first that fails."""

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

CHUNK = 20
AHEAD = 3
"""So many chunks per process are handed out at a time."""

TOLD_EVERY = 30.0


@dataclass
class Tally:
    """What some seeds came to, up to the first that failed."""

    passed: int = 0
    inputs: int = 0
    kinds: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    failed: str = ""

    def add(self, other: Tally) -> None:
        """What came next."""
        self.passed, self.inputs, self.kinds = (
            self.passed + other.passed,
            self.inputs + other.inputs,
            self.kinds + other.kinds,
        )
        self.fired.update(other.fired)
        self.states.update(other.states)
        self.failed = self.failed or other.failed

    def tell(self) -> None:
        """The histogram of faults, and averages."""
        most = max(self.fired.values(), default=1)
        for name, count in self.fired.most_common():
            print(f"{count:>10,}  {'#' * max(1, 40 * count // most):<40}  {name}")
        print("runs:", ", ".join(f"{count:,} {name}" for name, count in self.states.most_common()))
        seeds = max(1, self.passed)
        print(f"a seed: {self.inputs / seeds:.0f} inputs to engines, {self.kinds / seeds:.1f} kinds of fault")


def attempt(seed: int) -> Outcome | str:
    """The outcome, or what was violated."""
    if logging.root.manager.disable < logging.CRITICAL:  # it forgets all that loggers know, each time
        logging.disable(logging.CRITICAL)
    try:
        return run_seed(seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed is what counts
        return f"seed {seed}: {type(error).__name__}: {error}"


def chunk(seeds: range) -> Tally:
    """Plays these, one after another, up to the first that fails."""
    tally = Tally()
    for seed in seeds:
        outcome = attempt(seed)
        if isinstance(outcome, str):
            tally.failed = outcome
            break
        tally.add(Tally(1, outcome.inputs, len(outcome.fired), outcome.fired, outcome.states))
    gc.collect()  # a seed's own collections are young ones: what outlived one of them would stay for ever
    return tally


def tallies(pool: ProcessPoolExecutor, jobs: int, seeds: range) -> Iterator[Tally]:
    """In the order of seeds, so that the first failure is the lowest seed's."""
    waiting: deque[Future[Tally]] = deque()
    for first in range(seeds.start, seeds.stop, CHUNK):
        waiting.append(pool.submit(chunk, range(first, min(first + CHUNK, seeds.stop))))
        if len(waiting) >= AHEAD * jobs:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _begin() -> None:
    """In each process: Ctrl-C is the parent's to hear, and what was imported is no garbage."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args()
    began = told = time.monotonic()
    tally, stopped = Tally(), False
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told a job to ignore it
    pool = ProcessPoolExecutor(given.jobs, initializer=_begin)
    try:
        for part in tallies(pool, given.jobs, range(given.first, given.first + given.seeds)):
            tally.add(part)
            if tally.failed:
                break
            if (now := time.monotonic()) - told >= TOLD_EVERY:
                told, pace = now, tally.passed / (now - began)
                left = (given.seeds - tally.passed) / pace / 60
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
