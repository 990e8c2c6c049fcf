"""What isn't an append: plain text where it is always the same, SQLAlchemy's language where parts of it come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Select, any_, bindparam, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from archon_services.orchestrator.journal.postgres.schema import records, runs
from archon_services.orchestrator.journal.rows import OutboxRow, Publication, RunRow
from archon_services.orchestrator.journal.session_history import HISTORY_BYTES, HISTORY_TURNS
from archon_services.orchestrator.journal.sqlite.schema import RUN_COLUMNS

REQUEST: Final = "SELECT payload_hash, run_id FROM archon_journal.requests WHERE tenant = $1 AND request_id = $2"
EVENTS: Final = "SELECT data FROM archon_journal.events WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"
INPUTS: Final = "SELECT last_seq, data FROM archon_journal.inputs WHERE run_id = $1 ORDER BY last_seq"
RUN: Final = f"SELECT {RUN_COLUMNS} FROM archon_journal.runs WHERE run_id = $1"
OUTBOX: Final = """
SELECT o.row_id, o.run_id, o.epoch, o.scope, o.role, o.task_id, o.seq, o.content
FROM archon_journal.outbox AS o LEFT JOIN archon_journal.runs AS r ON r.run_id = o.run_id
WHERE coalesce(r.owner, '') = $1 OR coalesce(r.owner, '') NOT IN (SELECT owner FROM archon_journal.owners)
ORDER BY o.row_id LIMIT $2
"""
UNPUBLISHED: Final = "SELECT 1 FROM archon_journal.outbox WHERE scope = $1 LIMIT 1"
PUBLISHED: Final = "DELETE FROM archon_journal.outbox WHERE row_id = ANY($1::bigint[])"
COMPACTABLE: Final = """
SELECT run_id FROM archon_journal.runs WHERE ended_at > 0 AND NOT compacted AND ended_at < $1 ORDER BY ended_at LIMIT $2
"""
COMPACT: Final = """
WITH gone AS (
  UPDATE archon_journal.runs SET compacted = true, summary = $2 WHERE run_id = $1
), e AS (DELETE FROM archon_journal.events WHERE run_id = $1
), i AS (DELETE FROM archon_journal.inputs WHERE run_id = $1)
DELETE FROM archon_journal.records WHERE run_id = $1
"""
CONVERSATION: Final = f"""
SELECT version, data FROM (
  SELECT version, data, sum(length(data)) OVER (ORDER BY version DESC) AS size
  FROM (
    SELECT version, data FROM archon_journal.turns WHERE tenant = $1 AND session_id = $2 AND role = $3
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
), e AS (DELETE FROM archon_journal.events WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), i AS (DELETE FROM archon_journal.inputs WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), r AS (DELETE FROM archon_journal.records WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone))
), c AS (DELETE FROM archon_journal.commands WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone)))
DELETE FROM archon_journal.runs WHERE run_id = ANY(ARRAY(SELECT run_id FROM gone)) RETURNING run_id
"""
"""SKIP LOCKED: two replicas that sweep at once share the work."""

_RUN: Final = [runs.c[name] for name in RUN_COLUMNS.split(", ")]


def list_runs(
    tenant: str, session_id: str, states: Sequence[int], before: tuple[float, str] | None, limit: int
) -> Select[Any]:
    """Newest first, along an index that has the order."""
    found = select(*_RUN).where(runs.c.tenant == tenant)
    if session_id:
        found = found.where(runs.c.session_id == session_id, runs.c.session_id != "")
    if states:
        found = found.where(runs.c.state == any_(bindparam("states", list(states), ARRAY(BigInteger))))
    if before is not None:
        found = found.where(tuple_(runs.c.created_at, runs.c.run_id) < tuple_(*before))
    return found.order_by(runs.c.created_at.desc(), runs.c.run_id.desc()).limit(limit)


def list_records(run_id: str, role: str, after: int, limit: int) -> Select[Any]:
    """Along the primary key."""
    found = select(records.c.ordinal, records.c.data).where(records.c.run_id == run_id, records.c.ordinal > after)
    if role:
        found = found.where(records.c.role == role)
    return found.order_by(records.c.ordinal).limit(limit)


def run_row(row: Any) -> RunRow:
    """A row of RUN_COLUMNS."""
    return RunRow(*row)


def outbox_row(row: Any) -> OutboxRow:
    """A row of OUTBOX."""
    row_id, run_id, epoch, scope, role, task_id, seq, content = row
    return OutboxRow(row_id, run_id, epoch, Publication(scope, role, task_id, seq, content.decode()))
