"""Revision 0004: an item of each role for each policy and task."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
compatible_from = "0004"


def upgrade() -> None:
    """Adds the task to the items and to their key."""
    op.execute(
        "ALTER TABLE archon_memory.items ADD COLUMN task_id text NOT NULL DEFAULT '',"
        " DROP CONSTRAINT items_pkey,"
        " ADD CONSTRAINT items_pkey PRIMARY KEY (tenant, scope, role, policy, task_id)"
    )
