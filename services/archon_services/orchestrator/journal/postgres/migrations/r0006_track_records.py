"""The track records of roles and instances, and the ratings of runs."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
compatible_from = "0004"

CHANGES = """
CREATE TABLE archon_journal.track_records (
  owner text NOT NULL, tenant text NOT NULL, role text NOT NULL, instance_id text NOT NULL,
  "time" double precision NOT NULL, data bytea NOT NULL,
  CONSTRAINT track_records_pkey PRIMARY KEY (owner, tenant, role, instance_id)
);
CREATE INDEX track_records_time ON archon_journal.track_records ("time");
CREATE TABLE archon_journal.ratings (
  run_id text NOT NULL, identity text NOT NULL, stars integer NOT NULL, comment text NOT NULL,
  "time" double precision NOT NULL,
  CONSTRAINT ratings_pkey PRIMARY KEY (run_id, identity)
);
"""


def upgrade() -> None:
    """Adds only: an older version does not know these tables, and deletes runs without their ratings."""
    for statement in CHANGES.split(";\n"):
        if statement.strip():
            op.execute(statement)
