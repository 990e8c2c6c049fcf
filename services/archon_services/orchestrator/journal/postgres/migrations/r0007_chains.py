"""The links and seals of steps, and the audit log."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None
compatible_from = "0004"

CHANGES = """
ALTER TABLE archon_journal.steps ADD COLUMN link bytea;
ALTER TABLE archon_journal.steps ADD COLUMN seal bytea;
CREATE TABLE archon_journal.audit (
  row_id bigint GENERATED ALWAYS AS IDENTITY, chain text NOT NULL, "number" bigint NOT NULL DEFAULT 0,
  tenant text NOT NULL, "time" double precision NOT NULL, identity text NOT NULL, "action" text NOT NULL,
  run_id text NOT NULL, data bytea NOT NULL, digest bytea, link bytea, seal bytea,
  CONSTRAINT audit_pkey PRIMARY KEY (row_id)
);
CREATE UNIQUE INDEX audit_chain ON archon_journal.audit (chain, "number") WHERE "number" > 0;
CREATE INDEX audit_unlinked ON archon_journal.audit (row_id) WHERE "number" = 0;
CREATE INDEX audit_newest ON archon_journal.audit (tenant, row_id);
"""


def upgrade() -> None:
    """Adds only: rows that an older version wrote, or writes from now on, have no link."""
    for statement in CHANGES.split(";\n"):
        if statement.strip():
            op.execute(statement)
