"""Triggers, which submit runs, and their fires."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None
compatible_from = "0004"

CHANGES = """
CREATE TABLE archon_journal.triggers (
  tenant text NOT NULL, kind text NOT NULL, "name" text COLLATE "C" NOT NULL, revision bigint NOT NULL,
  due double precision NOT NULL, owner text NOT NULL, data bytea NOT NULL,
  CONSTRAINT triggers_pkey PRIMARY KEY (tenant, kind, "name")
);
CREATE INDEX triggers_due ON archon_journal.triggers (kind, due);
CREATE TABLE archon_journal.fires (
  tenant text NOT NULL, kind text NOT NULL, "name" text COLLATE "C" NOT NULL, fire_id text NOT NULL,
  number bigint NOT NULL, run_id text NOT NULL, running boolean NOT NULL, data bytea NOT NULL,
  CONSTRAINT fires_pkey PRIMARY KEY (tenant, kind, "name", fire_id)
);
CREATE INDEX fires_newest ON archon_journal.fires (tenant, kind, "name", number);
CREATE INDEX fires_running ON archon_journal.fires (kind, run_id) WHERE running;
"""


def upgrade() -> None:
    """Adds only: an older version fires nothing."""
    for statement in CHANGES.split(";\n"):
        if statement.strip():
            op.execute(statement)
