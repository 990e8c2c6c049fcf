"""A checksum of each step and each turn."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None
compatible_from = "0004"


def upgrade() -> None:
    """Adds only: rows that an older version wrote, or writes from now on, have no checksum and are read without one."""
    for table in ("steps", "turns"):
        op.execute(f"ALTER TABLE archon_journal.{table} ADD COLUMN checksum bigint")
