"""python -m tests.simulation.run --seeds 100000: many seeds on all cores, and what fired."""

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
    logging.disable(logging.CRITICAL)
    try:
        return run_seed(seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed is what counts
        return f"seed {seed}: {type(error).__name__}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    fired: Counter[str] = Counter()
    states: Counter[str] = Counter()
    failed = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for outcome in pool.map(attempt, range(given.first, given.first + given.seeds), chunksize=20):
            if isinstance(outcome, str):
                failed.append(outcome)
            else:
                fired += outcome.fired
                states += outcome.states
    for name, count in sorted(fired.items()):
        print(f"{count:>10,}  {name}")
    print("runs:", ", ".join(f"{count:,} {name}" for name, count in states.most_common()))
    print(f"{given.seeds:,} seeds in {time.monotonic() - began:.1f} s, {len(failed)} failed")
    for line in failed[:10]:
        print(line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
