"""Revision 0001: the tables of the first release."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
compatible_from = "0001"

# items: a role's row stays after its item is deleted (content NULL), because it carries the version.
# publications: published events of runs, with the version of each.
TABLES = """
CREATE TABLE archon_memory.meta (key text NOT NULL, value text NOT NULL, CONSTRAINT meta_pkey PRIMARY KEY (key));
CREATE TABLE archon_memory.items (
  tenant text NOT NULL, scope text NOT NULL, role text NOT NULL,
  version bigint NOT NULL, content bytea, metadata text NOT NULL, policy text NOT NULL,
  "timestamp" double precision NOT NULL, ttl double precision, expires_at double precision,
  run_id text NOT NULL, seq bigint NOT NULL, place bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  CONSTRAINT items_pkey PRIMARY KEY (tenant, scope, role)
);
CREATE INDEX items_expiring ON archon_memory.items (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE archon_memory.publications (
  tenant text NOT NULL, scope text NOT NULL, run_id text NOT NULL, role text NOT NULL,
  epoch bigint NOT NULL, seq bigint NOT NULL, version bigint NOT NULL, expires_at double precision NOT NULL,
  CONSTRAINT publications_pkey PRIMARY KEY (tenant, scope, run_id, role, epoch, seq)
);
CREATE INDEX publications_expiring ON archon_memory.publications (expires_at);
CREATE TABLE archon_memory.requests (
  tenant text NOT NULL, request_id text NOT NULL, payload_hash bytea NOT NULL, answer text NOT NULL,
  expires_at double precision NOT NULL,
  CONSTRAINT requests_pkey PRIMARY KEY (tenant, request_id)
);
CREATE INDEX requests_expiring ON archon_memory.requests (expires_at);
"""


def upgrade() -> None:
    """Creates the tables."""
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(statement)
