INSERT INTO archon_memory.meta VALUES ('structure', 'graph');
INSERT INTO archon_memory.items
  (tenant, scope, role, version, content, metadata, policy, timestamp, ttl, expires_at, run_id, seq, task_id)
VALUES
  ('t', 's', 'a', 7, 'text', '{"k": "v"}', 'final_response_only', 100, NULL, NULL, 'r', 4, 'r.1'),
  ('t', 's', 'forgotten', 3, NULL, '{}', 'final_response_only', 100, NULL, NULL, '', 0, '');
INSERT INTO archon_memory.publications VALUES ('t', 's', 'r', 'a', 2, 4, 7, 9e12);
INSERT INTO archon_memory.requests VALUES ('t', 'q', 'hash', '[["a", 7, false]]', 9e12);
INSERT INTO archon_memory.working_scopes VALUES ('t', 's', 2, 6, 9e12);
INSERT INTO archon_memory.working_values VALUES
  ('t', 's', 'k', 5, '{"a":1}', 100),
  ('t', 's', 'deleted', 3, NULL, 100);
