"""The daily counts of tenants and identities."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None
compatible_from = "0004"

CHANGES = """
CREATE TABLE archon_journal.daily_usage (
  "day" bigint NOT NULL, owner text NOT NULL, tenant text NOT NULL, identity text NOT NULL,
  runs bigint NOT NULL, bytes bigint NOT NULL, tokens bigint NOT NULL, micro_usd bigint NOT NULL,
  CONSTRAINT daily_usage_pkey PRIMARY KEY ("day", owner, tenant, identity)
)
"""


def upgrade() -> None:
    """Adds only: an older version counts nothing."""
    op.execute(CHANGES)
