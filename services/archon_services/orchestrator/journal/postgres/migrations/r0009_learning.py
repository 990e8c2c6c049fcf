"""Learned weights with their evidence, and marks of runs."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None
compatible_from = "0004"

CHANGES = """
CREATE TABLE archon_journal.learned_versions (
  tenant text NOT NULL, "version" bigint NOT NULL, "time" double precision NOT NULL, data bytea NOT NULL,
  CONSTRAINT learned_versions_pkey PRIMARY KEY (tenant, "version")
);
CREATE TABLE archon_journal.learned_evidence (
  tenant text NOT NULL, revision bigint NOT NULL, data bytea NOT NULL,
  CONSTRAINT learned_evidence_pkey PRIMARY KEY (tenant)
);
CREATE TABLE archon_journal.learned_outcomes (
  run_id text NOT NULL, source text NOT NULL,
  CONSTRAINT learned_outcomes_pkey PRIMARY KEY (run_id, source)
);
CREATE TABLE archon_journal.marks (
  run_id text NOT NULL, identity text NOT NULL, reason text NOT NULL, "time" double precision NOT NULL,
  CONSTRAINT marks_pkey PRIMARY KEY (run_id, identity)
);
"""


def upgrade() -> None:
    """Adds only: an older version learns nothing, and deletes runs without their marks."""
    for statement in CHANGES.split(";\n"):
        if statement.strip():
            op.execute(statement)
