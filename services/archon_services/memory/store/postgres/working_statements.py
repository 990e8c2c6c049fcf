"""Statements for working memory in PostgreSQL. Each works on a whole group of writes."""

from __future__ import annotations

from typing import Final

LAST_GROUP: Final = "SELECT value FROM archon_memory.meta WHERE key = 'last_working_group'"
PURGE_BATCH: Final = 1_000

DELETE_EXPIRED: Final = """
WITH gone AS (
  DELETE FROM archon_memory.working_scopes AS s USING unnest($1::text[], $2::text[]) AS g (tenant, scope)
  WHERE s.tenant = g.tenant AND s.scope = g.scope AND s.expires_at <= $3 RETURNING s.tenant, s.scope
)
DELETE FROM archon_memory.working_values AS v USING gone WHERE v.tenant = gone.tenant AND v.scope = gone.scope
"""
OLDEST_EXPIRED: Final = """
SELECT tenant, scope FROM archon_memory.working_scopes WHERE expires_at <= $1 ORDER BY expires_at LIMIT 1
"""
PURGE: Final = f"""
WITH gone AS (
  DELETE FROM archon_memory.working_values WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM archon_memory.working_values WHERE tenant = $1 AND scope = $2 LIMIT {PURGE_BATCH}
  )) RETURNING 1
)
DELETE FROM archon_memory.working_scopes
WHERE tenant = $1 AND scope = $2 AND (SELECT count(*) FROM gone) < {PURGE_BATCH}
"""
TOTALS: Final = """
SELECT tenant, scope, keys, size
FROM archon_memory.working_scopes JOIN unnest($1::text[], $2::text[]) AS g (tenant, scope) USING (tenant, scope)
"""
KEYS: Final = """
SELECT tenant, scope, key, version, octet_length(value_json)
FROM archon_memory.working_values
JOIN unnest($1::text[], $2::text[], $3::text[]) AS g (tenant, scope, key) USING (tenant, scope, key)
"""
WRITE: Final = """
WITH written AS (
  INSERT INTO archon_memory.meta VALUES ('last_working_group', $1)
  ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value
), scopes AS (
  INSERT INTO archon_memory.working_scopes (tenant, scope, keys, size, expires_at)
  SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::float8[])
  ON CONFLICT (tenant, scope) DO UPDATE
  SET keys = EXCLUDED.keys, size = EXCLUDED.size, expires_at = EXCLUDED.expires_at
)
INSERT INTO archon_memory.working_values (tenant, scope, key, version, value_json, updated_at)
SELECT * FROM unnest($7::text[], $8::text[], $9::text[], $10::bigint[], $11::text[], $12::float8[])
ON CONFLICT (tenant, scope, key) DO UPDATE
SET version = EXCLUDED.version, value_json = EXCLUDED.value_json, updated_at = EXCLUDED.updated_at
"""
_VALUES: Final = """
FROM archon_memory.working_values AS v JOIN archon_memory.working_scopes AS s USING (tenant, scope)
WHERE tenant = $1 AND scope = $2 AND expires_at > $3 AND value_json IS NOT NULL
"""
VALUE: Final = f"SELECT key, value_json, version, updated_at {_VALUES} AND key = $4"
PAGE: Final = f"""
SELECT key, value_json, version, updated_at, more FROM (
  SELECT *, sum(octet_length(value_json)) OVER (ORDER BY key) - octet_length(value_json) AS before,
         lead(key) OVER (ORDER BY key) IS NOT NULL AS more
  FROM (
    SELECT key, value_json, version, updated_at {_VALUES}
    AND key > $4 AND key >= $5 AND starts_with(key, $5) ORDER BY key LIMIT $6
  ) AS matching
) AS page WHERE before < $7 ORDER BY key
"""
