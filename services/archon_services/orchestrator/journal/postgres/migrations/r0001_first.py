"""The tables of the first release."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
compatible_from = "0001"

# runs leave room on their pages: an append changes no indexed column, and the new row then stays beside the old one.
TABLES = """
CREATE TABLE archon_journal.runs (
  run_id text NOT NULL,
  tenant text NOT NULL,
  session_id text NOT NULL,
  owner text NOT NULL,
  epoch bigint NOT NULL,
  last_seq bigint NOT NULL,
  state integer NOT NULL,
  batch_id text NOT NULL,
  records bigint NOT NULL,
  created_at double precision NOT NULL,
  ended_at double precision NOT NULL,
  compacted boolean DEFAULT false NOT NULL,
  summary bytea DEFAULT ''::bytea NOT NULL,
  CONSTRAINT runs_pkey PRIMARY KEY (run_id)
) WITH (fillfactor = 70);
CREATE INDEX runs_newest ON archon_journal.runs (tenant, created_at, run_id);
CREATE INDEX runs_of_session ON archon_journal.runs (tenant, session_id, created_at, run_id) WHERE session_id <> '';
CREATE INDEX runs_open ON archon_journal.runs (created_at, run_id) WHERE ended_at = 0;
CREATE INDEX runs_ended ON archon_journal.runs (ended_at) WHERE ended_at > 0;
CREATE INDEX runs_to_compact ON archon_journal.runs (ended_at) WHERE ended_at > 0 AND NOT compacted;
CREATE TABLE archon_journal.events (
  run_id text NOT NULL, seq bigint NOT NULL, data bytea NOT NULL,
  CONSTRAINT events_pkey PRIMARY KEY (run_id, seq)
);
CREATE TABLE archon_journal.inputs (
  run_id text NOT NULL, last_seq bigint NOT NULL, data bytea NOT NULL,
  CONSTRAINT inputs_pkey PRIMARY KEY (run_id, last_seq)
);
CREATE TABLE archon_journal.records (
  run_id text NOT NULL, ordinal bigint NOT NULL, role text NOT NULL, data bytea NOT NULL,
  CONSTRAINT records_pkey PRIMARY KEY (run_id, ordinal)
);
CREATE TABLE archon_journal.requests (
  tenant text NOT NULL, request_id text NOT NULL, payload_hash bytea NOT NULL, run_id text NOT NULL,
  expires_at double precision DEFAULT 0 NOT NULL,
  CONSTRAINT requests_pkey PRIMARY KEY (tenant, request_id)
);
CREATE INDEX requests_of_run ON archon_journal.requests (run_id);
CREATE INDEX requests_expiring ON archon_journal.requests (expires_at) WHERE expires_at > 0;
CREATE TABLE archon_journal.outbox (
  row_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  run_id text NOT NULL, epoch bigint NOT NULL, scope text NOT NULL, role text NOT NULL, task_id text NOT NULL,
  seq bigint NOT NULL, content bytea NOT NULL,
  CONSTRAINT outbox_pkey PRIMARY KEY (row_id)
);
"""


def upgrade() -> None:
    """All tables."""
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(statement)
