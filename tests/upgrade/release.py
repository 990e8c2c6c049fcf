"""Releases of Archon as folders of packages, which processes of tests run with: the previous, this and the next one."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fixtures.require import missing

ROOT: Final = Path(__file__).parents[2]
PREVIOUS: Final = Path(__file__).with_name("previous")
FLOORS: Final = ("sdk/python", "mesh", "services")
"""The folders that contain packages."""

MIGRATIONS: Final = "services/archon_services/orchestrator/journal/postgres/migrations"
SCHEMA: Final = "services/archon_services/orchestrator/journal/postgres/schema.py"
EVENT_REVISION: Final = "services/archon_services/orchestrator/convert/event_revision.py"

NEXT_REVISION: Final = "9999"
_MIGRATION: Final = """
from alembic import op

revision = "{revision}"
down_revision = "{before}"
branch_labels = None
depends_on = None
compatible_from = "{before}"


def upgrade() -> None:
    op.execute("ALTER TABLE archon_journal.runs ADD COLUMN note text")
    op.execute("CREATE TABLE archon_journal.notes (note text NOT NULL)")
"""


@dataclass(frozen=True)
class Release:
    """The packages below `folder`."""

    name: str
    folder: Path

    @property
    def path(self) -> str:
        """The value of PYTHONPATH, which comes before the packages that are installed."""
        return ":".join(str(self.folder / floor) for floor in FLOORS)


def previous_commit() -> str:
    """Returns the commit of the previous release."""
    [commit] = [line for line in PREVIOUS.read_text().splitlines() if line and not line.startswith("#")]
    return commit


def previous(folder: Path) -> Release:
    """Unpacks the previous release. Skips the test if this clone has no history up to it."""
    commit = previous_commit()
    archive = subprocess.run(
        ["git", "archive", commit, *FLOORS], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    if archive.returncode:
        missing("history", f"this clone does not have the previous release, commit {commit[:12]}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return Release("previous", folder)


def present() -> Release:
    """Returns this release."""
    return Release("present", ROOT)


def following(folder: Path) -> Release:
    """Makes a next release: this one with a migration that adds to the journal, and a new revision of events."""
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, folder / floor, ignore=shutil.ignore_patterns("__pycache__"))
    [head] = re.findall(r'head="(\d+)"', (folder / SCHEMA).read_text())
    _substitute(folder / SCHEMA, rf'head="{head}"', f'head="{NEXT_REVISION}"')
    _substitute(folder / EVENT_REVISION, r"^REVISION: Final = \d+$", "REVISION: Final = 1_000")
    script = folder / MIGRATIONS / f"r{NEXT_REVISION}_notes.py"
    script.write_text(_MIGRATION.format(revision=NEXT_REVISION, before=head))
    return Release("following", folder)


def _substitute(path: Path, pattern: str, text: str) -> None:
    replaced, count = re.subn(pattern, text, path.read_text(), flags=re.MULTILINE)
    assert count == 1, f"{pattern} occurs {count} times in {path}"
    path.write_text(replaced)
