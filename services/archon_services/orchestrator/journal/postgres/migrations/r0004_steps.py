"""One row for each step, with its events and inputs, in place of a row for each event."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
compatible_from = "0004"

# Events whose inputs are missing are kept, with empty inputs.
# Events are framed as a protobuf field 1, length-delimited: tag, varint, bytes. An event has less than 2^28 bytes.
CHANGES = (
    """
    CREATE TABLE archon_journal.steps (
      run_id text NOT NULL, base bigint NOT NULL, last_seq bigint NOT NULL, batch_id text NOT NULL,
      data bytea NOT NULL, inputs bytea NOT NULL,
      CONSTRAINT steps_pkey PRIMARY KEY (run_id, base)
    )
    """,
    "ALTER TABLE archon_journal.steps ALTER COLUMN data SET STORAGE EXTERNAL, ALTER COLUMN inputs SET STORAGE MAIN",
    """
    CREATE FUNCTION pg_temp.framed(event bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
      SELECT '\\x0a'::bytea || CASE
        WHEN n < 128 THEN set_byte('\\x00', 0, n)
        WHEN n < 16384 THEN set_byte(set_byte('\\x0000', 0, (n & 127) | 128), 1, n >> 7)
        WHEN n < 2097152 THEN
          set_byte(set_byte(set_byte('\\x000000', 0, (n & 127) | 128), 1, ((n >> 7) & 127) | 128), 2, n >> 14)
        ELSE set_byte(set_byte(set_byte(set_byte(
          '\\x00000000', 0, (n & 127) | 128), 1, ((n >> 7) & 127) | 128), 2, ((n >> 14) & 127) | 128), 3, n >> 21)
      END || event FROM (SELECT length(event) AS n) AS sized
    $$
    """,
    """
    INSERT INTO archon_journal.steps (run_id, base, last_seq, batch_id, data, inputs)
    SELECT b.run_id, b.base, max(e.seq), CASE WHEN b.next_base IS NULL THEN r.batch_id ELSE '' END,
      string_agg(pg_temp.framed(e.data), ''::bytea ORDER BY e.seq), b.inputs
    FROM (
      SELECT run_id, last_seq AS base, lead(last_seq) OVER (PARTITION BY run_id ORDER BY last_seq) AS next_base,
        data AS inputs
      FROM (
        SELECT run_id, last_seq, data FROM archon_journal.inputs
        UNION ALL
        SELECT DISTINCT e.run_id, 0::bigint, ''::bytea FROM archon_journal.events AS e WHERE NOT EXISTS (
          SELECT 1 FROM archon_journal.inputs AS i WHERE i.run_id = e.run_id AND i.last_seq = 0
        )
      ) AS causes
    ) AS b
    JOIN archon_journal.runs AS r ON r.run_id = b.run_id
    JOIN archon_journal.events AS e
      ON e.run_id = b.run_id AND e.seq > b.base AND e.seq <= coalesce(b.next_base, 9223372036854775807)
    GROUP BY b.run_id, b.base, b.next_base, b.inputs, r.batch_id
    """,
    "DROP FUNCTION pg_temp.framed(bytea)",
    "DROP TABLE archon_journal.events",
    "DROP TABLE archon_journal.inputs",
    "ALTER TABLE archon_journal.runs DROP COLUMN batch_id, DROP COLUMN records",
    "ALTER TABLE archon_journal.outbox ALTER COLUMN content DROP NOT NULL",
    "CREATE INDEX outbox_of_run ON archon_journal.outbox (run_id)",
)


def upgrade() -> None:
    """Gathers the events and inputs of each step. An orchestrator of an earlier version fails to write from here on,
    and loses nothing by that: stop it before the upgrade."""
    for statement in CHANGES:
        op.execute(statement)
