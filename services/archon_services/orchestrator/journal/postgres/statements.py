"""Statements other than commits: plain text if they never vary, SQLAlchemy expressions if they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Select, any_, bindparam, literal_column, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from archon_services.orchestrator.journal.postgres.schema import runs
from archon_services.orchestrator.journal.session_history import HISTORY_BYTES, HISTORY_TURNS

REQUEST: Final = "SELECT payload_hash, run_id FROM archon_journal.requests WHERE tenant = $1 AND request_id = $2"
STEPS: Final = """
SELECT s.base, s.last_seq, s.data, s.inputs, s.checksum, s.link FROM (
  SELECT base, sum(size) OVER (ORDER BY base) - size AS before FROM (
    SELECT base, octet_length(data) AS size FROM archon_journal.steps WHERE run_id = $1 AND base >= coalesce(
      (SELECT max(base) FROM archon_journal.steps WHERE run_id = $1 AND base <= $2), 0
    ) ORDER BY base LIMIT $3
  ) AS sizes
) AS page JOIN archon_journal.steps AS s ON s.run_id = $1 AND s.base = page.base
WHERE page.before < $4::bigint ORDER BY s.base
"""
OPENINGS: Final = (
    "SELECT run_id, substring(data FROM 1 FOR $2) FROM archon_journal.steps WHERE run_id = ANY($1::text[]) AND base = 0"
)
INPUTS: Final = (
    "SELECT base, last_seq, data, inputs, checksum FROM archon_journal.steps WHERE run_id = $1 ORDER BY base"
)
SIZE: Final = """
SELECT (SELECT coalesce(sum(octet_length(data) + octet_length(inputs)), 0) FROM archon_journal.steps WHERE run_id = $1)
  + (SELECT coalesce(sum(octet_length(data)), 0) FROM archon_journal.records WHERE run_id = $1)
"""
LAST_SEQ: Final = """greatest(r.last_seq, coalesce((
  SELECT s.last_seq FROM archon_journal.steps AS s WHERE s.run_id = r.run_id ORDER BY s.base DESC LIMIT 1
), 0))"""
"""The last event of a row `r` of runs, whose own column holds the event of its last change of state."""

RUN_COLUMNS: Final = (
    f"r.run_id, r.tenant, r.session_id, r.owner, r.epoch, {LAST_SEQ}, r.state, r.created_at, r.ended_at, r.compacted, "
    "r.summary, r.revision, r.stalled"
)
RUN: Final = f"SELECT {RUN_COLUMNS} FROM archon_journal.runs AS r WHERE r.run_id = $1"
OUTBOX: Final = """
SELECT o.row_id, o.run_id, o.epoch, o.scope, o.role, o.task_id, o.seq, o.content,
  s.base, s.last_seq, s.data, s.inputs, s.checksum
FROM archon_journal.outbox AS o LEFT JOIN archon_journal.runs AS r ON r.run_id = o.run_id
LEFT JOIN LATERAL (
  SELECT * FROM archon_journal.steps WHERE run_id = o.run_id AND base < o.seq ORDER BY base DESC LIMIT 1
) AS s ON true
WHERE (coalesce(r.owner, '') = $1 OR coalesce(r.owner, '') NOT IN (SELECT owner FROM archon_journal.owners))
  AND $3 IN ('', o.scope) AND o.scope <> ALL($4::text[])
ORDER BY o.row_id LIMIT $2
"""
UNPUBLISHED: Final = "SELECT 1 FROM archon_journal.outbox WHERE scope = $1 LIMIT 1"
PUBLISHED: Final = "DELETE FROM archon_journal.outbox WHERE row_id = ANY($1::bigint[])"
LAST_ENDED: Final = """
SELECT run_id, owner, ended_at FROM archon_journal.runs WHERE ended_at > 0 ORDER BY ended_at DESC LIMIT $1
"""

LAST_RUN_ID: Final = "SELECT run_id FROM archon_journal.runs ORDER BY run_id DESC LIMIT 1"
BOUND_ENDS: Final = "UPDATE archon_journal.runs SET ended_at = $1 WHERE ended_at > 0 AND ended_at > $1"
BOUND_TURNS: Final = "UPDATE archon_journal.turns SET time = $1 WHERE time > $1"

COMPACTABLE: Final = """
SELECT run_id FROM archon_journal.runs AS r WHERE ended_at > 0 AND NOT compacted AND ended_at < $1 AND revision <= $3
  AND NOT EXISTS (SELECT 1 FROM archon_journal.outbox AS o WHERE o.run_id = r.run_id)
ORDER BY ended_at LIMIT $2
"""
COMPACT: Final = """
WITH gone AS (
  UPDATE archon_journal.runs SET compacted = true, summary = $2 WHERE run_id = $1
), s AS (DELETE FROM archon_journal.steps WHERE run_id = $1)
DELETE FROM archon_journal.records WHERE run_id = $1
"""
CONVERSATION: Final = f"""
SELECT version, data, checksum FROM (
  SELECT version, data, checksum, sum(length(data)) OVER (ORDER BY version DESC) AS size
  FROM (
    SELECT version, data, checksum FROM archon_journal.turns WHERE tenant = $1 AND session_id = $2 AND role = $3
    ORDER BY version DESC LIMIT {HISTORY_TURNS}
  ) AS newest
) AS sized WHERE size <= {HISTORY_BYTES} ORDER BY version
"""
FORGET_TURNS: Final = "DELETE FROM archon_journal.turns WHERE time < $1"
DELETED_AT_ONCE: Final = 100
FORGET_REQUESTS: Final = "DELETE FROM archon_journal.requests WHERE expires_at > 0 AND expires_at < $1"
DELETE: Final = f"""
WITH gone AS MATERIALIZED (
  SELECT run_id FROM archon_journal.runs WHERE ended_at > 0 AND ended_at < $1
  ORDER BY ended_at LIMIT {DELETED_AT_ONCE} FOR UPDATE SKIP LOCKED
), q AS (
  UPDATE archon_journal.requests SET expires_at = $2 WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), s AS (DELETE FROM archon_journal.steps WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), o AS (DELETE FROM archon_journal.outbox WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), r AS (DELETE FROM archon_journal.records WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), c AS (DELETE FROM archon_journal.commands WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), m AS (DELETE FROM archon_journal.marks WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), l AS (DELETE FROM archon_journal.learned_outcomes WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), a AS (DELETE FROM archon_journal.ratings WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone)))
DELETE FROM archon_journal.runs WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone)) RETURNING run_id
"""
"""SKIP LOCKED: two replicas that delete at the same time share the work."""

_run = runs.alias("r")


def list_runs(
    tenant: str,
    session_id: str,
    states: Sequence[int],
    before: tuple[float, str] | None,
    limit: int,
    since: float = 0.0,
) -> Select[Any]:
    """Newest first, along an index that has the order."""
    query: Select[Any] = select(literal_column(RUN_COLUMNS)).select_from(_run).where(_run.c.tenant == tenant)
    if session_id:
        query = query.where(_run.c.session_id == session_id, _run.c.session_id != "")
    if states:
        query = query.where(_run.c.state == any_(bindparam("states", list(states), ARRAY(BigInteger))))
    if before is not None:
        query = query.where(tuple_(_run.c.created_at, _run.c.run_id) < tuple_(*before))
    if since:
        query = query.where(_run.c.created_at >= since)
    return query.order_by(_run.c.created_at.desc(), _run.c.run_id.desc()).limit(limit)


RECORDS: Final = """
SELECT r.ordinal, r.data FROM (
  SELECT ordinal, sum(size) OVER (ORDER BY ordinal) - size AS before FROM (
    SELECT ordinal, octet_length(data) AS size FROM archon_journal.records
    WHERE run_id = $1 AND ordinal > $2 AND ($3 = '' OR role = $3) ORDER BY ordinal LIMIT $4
  ) AS sizes
) AS page JOIN archon_journal.records AS r ON r.run_id = $1 AND r.ordinal = page.ordinal
WHERE page.before < $5::bigint ORDER BY r.ordinal
"""
