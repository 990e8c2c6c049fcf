"""The failure table: each fault, the outcome of the runs, and the longest run. Tests add rows; `main` writes the page."""

from __future__ import annotations

import json
import os
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing" / "failures.md"

HEAD = """# Failures

What happens to runs when something fails under load: two orchestrators on PostgreSQL, a registry on etcd (one member,
or three if the row says so), the memory service and six agents, all real processes; eight runs of three roles in
flight at all times, submitted to either orchestrator. Written by `make failures` from the results of its tests.

"Longest run" is the longest duration of a run that ended after the fault had begun, from its caller's first attempt
to submit it, which may be refused or unanswered for as long as the fault lasts, to its last event. A healthy run
takes {healthy:.1f} s here. "Again" is the number of attempts that were journaled as lost or rejected and were followed by
another attempt.

In every row no acknowledged run was lost, every watcher received every event once and in order, and no task was
executed again without a journaled loss.

| what fails | longest run | outcome of the runs | again |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One row. `longest`: the longest duration of a run that ended after the fault had begun. `healthy`: the median
    duration before the fault, 0 if no run had ended. Both in seconds. `fate`: the number of runs per final state, for
    people. `lost`: the number of attempts that were journaled as lost."""

    name: str
    order: float
    longest: float
    healthy: float
    fate: str
    lost: int


def keep(row: Row) -> None:
    """Prints the row and appends it to the file that ARCHON_FAILURES_ROWS names."""
    print(f"\n{row.name}: {row.fate}; the longest took {row.longest:.1f} s; {row.lost} attempts again")
    if path := os.environ.get("ARCHON_FAILURES_ROWS"):
        with Path(path).open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def main() -> int:
    """Writes the page from a file of rows."""
    rows = {row["name"]: Row(**row) for row in map(json.loads, Path(sys.argv[1]).read_text().splitlines())}
    lines = [
        f"| {row.name} | {row.longest:.1f} s | {row.fate} | {row.lost} |"
        for row in sorted(rows.values(), key=lambda row: row.order)
    ]
    healthy = statistics.median(row.healthy for row in rows.values() if row.healthy)
    PAGE.write_text(HEAD.format(healthy=healthy) + "\n".join(lines) + "\n")
    print(f"{len(lines)} rows in {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
