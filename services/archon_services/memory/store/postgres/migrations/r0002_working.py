"""Revision 0002: the tables of working memory."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None
compatible_from = "0001"

# working_values: a key's row stays after its value is deleted (value_json NULL), because it carries the version.
# Keys are compared by code point, regardless of the collation of the database.
TABLES = """
CREATE TABLE archon_memory.working_scopes (
  tenant text NOT NULL, scope text NOT NULL,
  keys bigint NOT NULL, size bigint NOT NULL, expires_at double precision NOT NULL,
  CONSTRAINT working_scopes_pkey PRIMARY KEY (tenant, scope)
);
CREATE INDEX working_scopes_expiring ON archon_memory.working_scopes (expires_at);
CREATE TABLE archon_memory.working_values (
  tenant text NOT NULL, scope text NOT NULL, key text COLLATE "C" NOT NULL,
  version bigint NOT NULL, value_json text, updated_at double precision NOT NULL,
  CONSTRAINT working_values_pkey PRIMARY KEY (tenant, scope, key)
);
"""


def upgrade() -> None:
    """Creates the tables."""
    for statement in TABLES.split(";\n"):
        if statement.strip():
            op.execute(statement)
