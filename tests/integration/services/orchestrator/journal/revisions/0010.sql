INSERT INTO archon_journal.runs
  (run_id, tenant, session_id, owner, epoch, last_seq, state, created_at, ended_at, compacted, summary,
   revision, stalled, claimed_seq)
VALUES
  ('open', 'default', 'session', 'owner', 3, 1, 2, 100, 0, false, '', 1, 2, 2),
  ('ended', 'default', '', 'owner', 1, 5, 3, 50, 60, true, 'summary', 1, 0, -1);
INSERT INTO archon_journal.steps VALUES
  ('open', 0, 1, '', '\x0a05' || 'first'::bytea, 'in', 4222578016, decode(repeat('ab', 32), 'hex'), NULL),
  ('open', 1, 2, 'batch', '\x0a06' || 'second'::bytea, 'in', 2103008811, decode(repeat('cd', 32), 'hex'), NULL);
INSERT INTO archon_journal.records VALUES ('open', 1, 'role', 'record');
INSERT INTO archon_journal.requests VALUES ('default', 'request', 'hash', 'open', 0);
INSERT INTO archon_journal.outbox (run_id, epoch, scope, role, task_id, seq, content)
VALUES ('open', 3, 'session', 'role', 'open.1', 2, 'text');
INSERT INTO archon_journal.owners VALUES ('gone', 'host:7103', 1, 17);
INSERT INTO archon_journal.commands (run_id, data) VALUES ('open', 'command');
INSERT INTO archon_journal.turns VALUES ('default', 'session', 'role', 1, 100, 'turn');
INSERT INTO archon_journal.audit (chain, tenant, "time", identity, "action", run_id, data)
VALUES ('gone', 'default', 100, 'alice', 'run.submit', 'open', '{}');
INSERT INTO archon_journal.daily_usage VALUES (20000, 'gone', 'default', 'alice', 1, 1000, 70, 5000);
INSERT INTO archon_journal.marks VALUES ('open', 'alice', 'slow', 100);
INSERT INTO archon_journal.learned_versions VALUES ('default', 1, 100, 'version');
INSERT INTO archon_journal.learned_evidence VALUES ('default', 1, 'evidence');
INSERT INTO archon_journal.learned_outcomes VALUES ('ended', '');
INSERT INTO archon_journal.triggers VALUES ('default', 'schedule', 'nightly', 3, 200, '', 'schedule');
INSERT INTO archon_journal.fires VALUES ('default', 'schedule', 'nightly', '1970-01-01T00:01:40Z', 1, 'open', true, 'fire');
