"""python -m tests.simulation.run --seeds 100000: many seeds on all cores, what fired, and each seed that failed."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.course import Outcome, run_seed


def attempt(seed: int) -> Outcome | str:
    """The outcome, or what was violated."""
    if logging.root.manager.disable < logging.CRITICAL:  # it forgets all that loggers know, each time
        logging.disable(logging.CRITICAL)
    try:
        return run_seed(seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed is what counts
        return f"seed {seed}: {type(error).__name__}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    began, inputs, kinds, passed = time.monotonic(), 0, 0, 0
    fired: Counter[str] = Counter()
    states: Counter[str] = Counter()
    failed = []
    with ProcessPoolExecutor(max_workers=given.jobs) as pool:
        for outcome in pool.map(attempt, range(given.first, given.first + given.seeds), chunksize=20):
            if isinstance(outcome, str):
                print(outcome, flush=True)
                failed.append(outcome)
                continue
            passed += 1
            fired += outcome.fired
            states += outcome.states
            inputs += outcome.inputs
            kinds += len(outcome.fired)
    most = max(fired.values(), default=1)
    for name, count in fired.most_common():
        print(f"{count:>10,}  {'#' * max(1, 40 * count // most):<40}  {name}")
    print("runs:", ", ".join(f"{count:,} {name}" for name, count in states.most_common()))
    print(f"a seed: {inputs / max(1, passed):.0f} inputs to engines, {kinds / max(1, passed):.1f} kinds of fault")
    print(f"{given.seeds:,} seeds in {time.monotonic() - began:.1f} s, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
