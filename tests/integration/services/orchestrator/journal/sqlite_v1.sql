-- A journal as version 1 wrote it: one run with two events.
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
  run_id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  session_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  state INTEGER NOT NULL,
  batch_id TEXT NOT NULL,
  created_at REAL NOT NULL,
  ended_at REAL NOT NULL,
  compacted INTEGER NOT NULL DEFAULT 0,
  summary BLOB NOT NULL DEFAULT x''
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_newest ON runs (tenant, created_at DESC, run_id DESC);
CREATE INDEX IF NOT EXISTS runs_open ON runs (run_id) WHERE ended_at = 0;
CREATE INDEX IF NOT EXISTS runs_ended ON runs (ended_at) WHERE ended_at > 0;
CREATE TABLE IF NOT EXISTS events (
  run_id TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS inputs (
  run_id TEXT NOT NULL, last_seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (run_id, last_seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
  ordinal INTEGER PRIMARY KEY, run_id TEXT NOT NULL, role TEXT NOT NULL, data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS records_run ON records (run_id, ordinal);
CREATE TABLE IF NOT EXISTS requests (
  tenant TEXT NOT NULL, request_id TEXT NOT NULL, payload_hash BLOB NOT NULL, run_id TEXT NOT NULL,
  expires_at REAL NOT NULL DEFAULT 0, PRIMARY KEY (tenant, request_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS requests_run ON requests (run_id);
CREATE TABLE IF NOT EXISTS outbox (
  row_id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, epoch INTEGER NOT NULL, scope TEXT NOT NULL,
  role TEXT NOT NULL, task_id TEXT NOT NULL, seq INTEGER NOT NULL, content TEXT NOT NULL
);
INSERT INTO meta VALUES ('version', '1');
INSERT INTO runs VALUES ('r', 'default', '', 'before', 3, 2, 2, 'b', 100.0, 0, 0, x'');
INSERT INTO events VALUES ('r', 1, CAST('one' AS BLOB)), ('r', 2, CAST('two' AS BLOB));
