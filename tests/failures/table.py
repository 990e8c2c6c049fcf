"""The failure table: what was done, what became of the runs, how long it took. Rows are kept as the tests give them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"

HEAD = """# Failures

What becomes of runs when something fails under load: two orchestrators on PostgreSQL, a registry on etcd, the memory service and
six agents, all real processes; eight runs of three roles in flight all the time, submitted to either orchestrator. Written by
`make failures` from what its tests saw; "recovered" is the time from the fault until every run that was in flight then has ended and
new ones go through. In every row no acknowledged run was lost, every watcher saw every event once and in order, and no task was done
again without a journaled loss.

| what fails | recovered after | of the runs | tasks lost and done again |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """`seconds` until everything went on; `fate` of the runs, for people; `lost` attempts that were journaled as lost."""

    name: str
    order: float
    seconds: float
    fate: str
    lost: int


def keep(row: Row) -> None:
    """Prints it, and appends it to the file that ARCHON_FAILURES_ROWS names."""
    print(f"\n{row.name}: {row.fate}; recovered after {row.seconds:.1f} s; {row.lost} tasks were lost and done again")
    if path := os.environ.get("ARCHON_FAILURES_ROWS"):
        with Path(path).open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def main() -> int:
    """Writes the page from a file of rows."""
    rows = {row["name"]: Row(**row) for row in map(json.loads, Path(sys.argv[1]).read_text().splitlines())}
    lines = [
        f"| {row.name} | {row.seconds:.1f} s | {row.fate} | {row.lost} |"
        for row in sorted(rows.values(), key=lambda row: row.order)
    ]
    PAGE.write_text(HEAD + "\n".join(lines) + "\n")
    print(f"{len(lines)} rows in {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
