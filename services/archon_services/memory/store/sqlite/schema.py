"""The tables of the SQLite store."""

from __future__ import annotations

from typing import Final

VERSION: Final = 4

COMPATIBLE_FROM: Final = 4
"""The earliest version whose release works with these tables, as in the journal."""

# items: a row for each policy and task under which a role has published. It stays after its item is deleted (content
# NULL), because it carries the version.
# publications: published events of runs, with the version of each.
# working_values: a key's row stays after its value is deleted (value_json NULL), because it carries the version.
_ITEMS: Final = """
CREATE TABLE IF NOT EXISTS items (
  tenant TEXT NOT NULL, scope TEXT NOT NULL, role TEXT NOT NULL,
  version INTEGER NOT NULL, content TEXT, metadata TEXT NOT NULL, policy TEXT NOT NULL, timestamp REAL NOT NULL,
  ttl REAL, expires_at REAL, run_id TEXT NOT NULL, seq INTEGER NOT NULL, task_id TEXT NOT NULL,
  PRIMARY KEY (tenant, scope, role, policy, task_id)
);
CREATE INDEX IF NOT EXISTS items_expiring ON items (expires_at) WHERE expires_at IS NOT NULL;
"""
TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
{_ITEMS}
CREATE TABLE IF NOT EXISTS publications (
  tenant TEXT NOT NULL, scope TEXT NOT NULL, run_id TEXT NOT NULL, role TEXT NOT NULL,
  epoch INTEGER NOT NULL, seq INTEGER NOT NULL, version INTEGER NOT NULL, expires_at REAL NOT NULL,
  PRIMARY KEY (tenant, scope, run_id, role, epoch, seq)
);
CREATE INDEX IF NOT EXISTS publications_expiring ON publications (expires_at);
CREATE TABLE IF NOT EXISTS requests (
  tenant TEXT NOT NULL, request_id TEXT NOT NULL, payload_hash BLOB NOT NULL, answer TEXT NOT NULL,
  expires_at REAL NOT NULL,
  PRIMARY KEY (tenant, request_id)
);
CREATE INDEX IF NOT EXISTS requests_expiring ON requests (expires_at);
CREATE TABLE IF NOT EXISTS working_scopes (
  tenant TEXT NOT NULL, scope TEXT NOT NULL, keys INTEGER NOT NULL, size INTEGER NOT NULL, expires_at REAL NOT NULL,
  PRIMARY KEY (tenant, scope)
);
CREATE INDEX IF NOT EXISTS working_scopes_expiring ON working_scopes (expires_at);
CREATE TABLE IF NOT EXISTS working_values (
  tenant TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL,
  version INTEGER NOT NULL, value_json TEXT, updated_at REAL NOT NULL,
  PRIMARY KEY (tenant, scope, key)
);
"""

# From versions 1 and 2, which kept one item of each role, and 3, which kept one of each role and policy. The tables
# that version 1 lacks exist by now.
UPGRADE: Final = f"""
BEGIN IMMEDIATE;
ALTER TABLE items RENAME TO items_of_roles;
DROP INDEX items_expiring;
{_ITEMS}
INSERT INTO items SELECT *, '' FROM items_of_roles ORDER BY rowid;
DROP TABLE items_of_roles;
UPDATE meta SET value = '{VERSION}' WHERE key = 'version';
COMMIT;
"""
