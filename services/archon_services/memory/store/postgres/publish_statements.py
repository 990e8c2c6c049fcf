"""Statements for published items in PostgreSQL. Each works on a whole group of publishes."""

from __future__ import annotations

from typing import Final

from archon_services.memory.domain.publishing import MAX_VERSIONS

ITEM: Final = "role, version, content, metadata, policy, timestamp, ttl, run_id, seq, task_id"

REQUESTS: Final = """
SELECT tenant, request_id, payload_hash, answer
FROM archon_memory.requests JOIN unnest($1::text[], $2::text[], $3::float8[]) AS g (tenant, request_id, now)
USING (tenant, request_id) WHERE expires_at > now
"""
EVENTS: Final = """
SELECT g.tenant, g.scope, g.run_id, g.role, g.epoch, g.seq, same.version, last.epoch, last.seq
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
  AS g (tenant, scope, run_id, role, epoch, seq)
LEFT JOIN archon_memory.publications AS same ON same.tenant = g.tenant AND same.scope = g.scope
  AND same.run_id = g.run_id AND same.role = g.role AND same.epoch = g.epoch AND same.seq = g.seq
CROSS JOIN LATERAL (
  SELECT p.epoch, p.seq FROM archon_memory.publications AS p
  WHERE p.tenant = g.tenant AND p.scope = g.scope AND p.run_id = g.run_id AND p.role = g.role
  ORDER BY p.epoch DESC, p.seq DESC LIMIT 1
) AS last
"""
_OWN: Final = ", ".join(
    "CASE WHEN i.task_id = g.task_id THEN i.content END" if name == "content" else f"i.{name}"
    for name in ITEM.split(", ")
)
# The texts of other tasks are not read: a row of them only carries its version.
ITEMS: Final = f"""
SELECT i.tenant, i.scope, i.expires_at, {_OWN}
FROM archon_memory.items AS i JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[])
  AS g (tenant, scope, role, task_id) USING (tenant, scope, role)
"""
WRITE: Final = f"""
WITH new AS MATERIALIZED (
  SELECT * FROM unnest(
    $20::text[], $21::text[], $22::text[], $23::bigint[], $24::bytea[], $25::text[], $26::text[], $27::float8[],
    $28::float8[], $29::float8[], $30::text[], $31::bigint[], $32::text[]
  ) WITH ORDINALITY AS i
    (tenant, scope, role, version, content, metadata, policy, timestamp, ttl, expires_at, run_id, seq, task_id, n)
), replaced AS (
  DELETE FROM archon_memory.items AS i USING new AS g
  WHERE i.tenant = g.tenant AND i.scope = g.scope AND i.role = g.role AND i.policy = g.policy
    AND (i.run_id <> g.run_id OR i.version <= g.version - {MAX_VERSIONS})
    AND NOT EXISTS (
      SELECT FROM new AS w WHERE w.tenant = i.tenant AND w.scope = i.scope AND w.role = i.role
        AND w.policy = i.policy AND w.task_id = i.task_id
    )
), written AS (
  INSERT INTO archon_memory.meta VALUES ('last_group', $1) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value
), earlier AS (
  UPDATE archon_memory.publications AS p SET expires_at = least(p.expires_at, e.expires_at)
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::float8[])
    AS e (tenant, scope, run_id, role, expires_at)
  WHERE p.tenant = e.tenant AND p.scope = e.scope AND p.run_id = e.run_id AND p.role = e.role
), events AS (
  INSERT INTO archon_memory.publications (tenant, scope, run_id, role, epoch, seq, version, expires_at)
  SELECT * FROM unnest(
    $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::float8[]
  )
), new_requests AS (
  INSERT INTO archon_memory.requests (tenant, request_id, payload_hash, answer, expires_at)
  SELECT * FROM unnest($15::text[], $16::text[], $17::bytea[], $18::text[], $19::float8[])
  ON CONFLICT (tenant, request_id) DO UPDATE
  SET payload_hash = EXCLUDED.payload_hash, answer = EXCLUDED.answer, expires_at = EXCLUDED.expires_at
)
INSERT INTO archon_memory.items
  (tenant, scope, role, version, content, metadata, policy, timestamp, ttl, expires_at, run_id, seq, task_id)
SELECT tenant, scope, role, version, content, metadata, policy, timestamp, ttl, expires_at, run_id, seq, task_id
FROM new ORDER BY n
ON CONFLICT (tenant, scope, role, policy, task_id) DO UPDATE
SET version = EXCLUDED.version, content = EXCLUDED.content, metadata = EXCLUDED.metadata,
    timestamp = EXCLUDED.timestamp, ttl = EXCLUDED.ttl, expires_at = EXCLUDED.expires_at, run_id = EXCLUDED.run_id,
    seq = EXCLUDED.seq, place = DEFAULT
"""
LAST_GROUP: Final = "SELECT value FROM archon_memory.meta WHERE key = 'last_group'"
SCOPE_ITEMS: Final = f"""
SELECT {ITEM} FROM archon_memory.items WHERE tenant = $1 AND scope = $2 AND content IS NOT NULL ORDER BY place
"""
CLEAR: Final = """
WITH live AS (
  SELECT count(*) AS count FROM archon_memory.items
  WHERE tenant = $1 AND scope = $2 AND content IS NOT NULL AND (expires_at IS NULL OR expires_at > $3)
), gone AS (
  UPDATE archon_memory.items SET content = NULL, metadata = '{}', expires_at = NULL WHERE tenant = $1 AND scope = $2
)
SELECT count FROM live
"""
PURGE_BATCH: Final = 1_000
_EXPIRED: Final = "WHERE ctid = ANY(ARRAY(SELECT ctid FROM {0} WHERE expires_at <= $1 LIMIT {1}))"
PURGE: Final = (
    "DELETE FROM archon_memory.requests " + _EXPIRED.format("archon_memory.requests", PURGE_BATCH),
    "DELETE FROM archon_memory.publications " + _EXPIRED.format("archon_memory.publications", PURGE_BATCH),
    "UPDATE archon_memory.items SET content = NULL, metadata = '{}', expires_at = NULL "
    + _EXPIRED.format("archon_memory.items", PURGE_BATCH),
)
ROLE_GRAPH: Final = "SELECT value FROM archon_memory.meta WHERE key = 'structure'"
SAVE_ROLE_GRAPH: Final = """
INSERT INTO archon_memory.meta VALUES ('structure', $1) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value
"""
