"""Several orchestrators: their incarnations, the commands left for the owner of a run, the claims without success."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None
compatible_from = "0001"

CHANGES = """
ALTER TABLE archon_journal.runs
  ADD COLUMN revision integer DEFAULT 1 NOT NULL,
  ADD COLUMN stalled integer DEFAULT 0 NOT NULL,
  ADD COLUMN claimed_seq bigint DEFAULT -1 NOT NULL;
CREATE INDEX runs_open_of_owner ON archon_journal.runs (owner, created_at, run_id) WHERE ended_at = 0;
CREATE TABLE archon_journal.owners (
  owner text NOT NULL, address text NOT NULL, revision integer NOT NULL, beat bigint NOT NULL,
  CONSTRAINT owners_pkey PRIMARY KEY (owner)
) WITH (fillfactor = 50);
CREATE TABLE archon_journal.commands (
  row_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL, run_id text NOT NULL, data bytea NOT NULL,
  CONSTRAINT commands_pkey PRIMARY KEY (row_id)
);
CREATE INDEX commands_of_run ON archon_journal.commands (run_id, row_id);
"""


def upgrade() -> None:
    """Adds only: rows of older versions stay readable."""
    for statement in CHANGES.split(";\n"):
        if statement.strip():
            op.execute(statement)
