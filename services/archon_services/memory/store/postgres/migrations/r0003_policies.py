"""Revision 0003: an item of each role for each policy."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None
compatible_from = "0003"


def upgrade() -> None:
    """Adds the policy to the key of items."""
    op.execute(
        "ALTER TABLE archon_memory.items DROP CONSTRAINT items_pkey,"
        " ADD CONSTRAINT items_pkey PRIMARY KEY (tenant, scope, role, policy)"
    )
