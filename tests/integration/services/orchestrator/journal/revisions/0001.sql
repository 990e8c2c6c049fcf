INSERT INTO archon_journal.runs
  (run_id, tenant, session_id, owner, epoch, last_seq, state, batch_id, records, created_at, ended_at, compacted, summary)
VALUES
  ('open', 'default', 'session', 'owner', 3, 2, 2, 'batch', 1, 100, 0, false, ''),
  ('ended', 'default', '', 'owner', 1, 5, 3, 'batch', 0, 50, 60, true, 'summary');
INSERT INTO archon_journal.events VALUES ('open', 1, 'first'), ('open', 2, 'second');
INSERT INTO archon_journal.inputs VALUES ('open', 0, 'in'), ('open', 1, 'in');
INSERT INTO archon_journal.records VALUES ('open', 1, 'role', 'record');
INSERT INTO archon_journal.requests VALUES ('default', 'request', 'hash', 'open', 0);
INSERT INTO archon_journal.outbox (run_id, epoch, scope, role, task_id, seq, content)
VALUES ('open', 3, 'session', 'role', 'open.1', 2, 'text');
