"""The roles' memory of sessions: the turns of their conversations."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None
compatible_from = "0001"


def upgrade() -> None:
    """Adds only: rows of older versions stay readable."""
    op.execute(
        """
        CREATE TABLE archon_journal.turns (
          tenant text NOT NULL, session_id text NOT NULL, role text NOT NULL, version bigint NOT NULL,
          time double precision NOT NULL, data bytea NOT NULL,
          CONSTRAINT turns_pkey PRIMARY KEY (tenant, session_id, role, version)
        )
        """
    )
    op.execute("CREATE INDEX turns_time ON archon_journal.turns (time)")
