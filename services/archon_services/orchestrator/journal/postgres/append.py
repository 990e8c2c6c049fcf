"""The append of a group of runs: one statement, under each run's condition, so one round trip and one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from archon.errors import ArchonError
from archon_services.orchestrator.journal.rows import Append, Outcome
from archon_services.postgres.connections import Connection, transaction

CHILDREN: Final = """
, new_events AS (
  INSERT INTO archon_journal.events (run_id, seq, data)
  SELECT run_id, seq, data
  FROM {moved} JOIN unnest(${0}::text[], ${1}::bigint[], ${2}::bytea[]) AS e (run_id, seq, data) USING (run_id)
), new_inputs AS (
  INSERT INTO archon_journal.inputs (run_id, last_seq, data) SELECT run_id, last_seq, inputs FROM {moved}
), new_records AS (
  INSERT INTO archon_journal.records (run_id, ordinal, role, data)
  SELECT run_id, records + n, role, data
  FROM {moved} JOIN unnest(${3}::text[], ${4}::bigint[], ${5}::text[], ${6}::bytea[]) AS r (run_id, n, role, data)
  USING (run_id)
), new_outbox AS (
  INSERT INTO archon_journal.outbox (run_id, epoch, scope, role, task_id, seq, content)
  SELECT run_id, epoch, scope, role, task_id, seq, content
  FROM {moved} JOIN unnest(
    ${7}::text[], ${8}::text[], ${9}::text[], ${10}::text[], ${11}::bigint[], ${12}::bytea[]
  ) AS o (run_id, scope, role, task_id, seq, content) USING (run_id)
), taken AS (
  DELETE FROM archon_journal.commands WHERE row_id = ANY(ARRAY(
    SELECT row_id FROM {moved} JOIN unnest(${13}::text[], ${14}::bigint[]) AS t (run_id, row_id) USING (run_id)
  ))
)
SELECT run_id FROM {moved}
"""
"""What comes with each run that was moved on. No NOTIFY: it takes a lock of the whole server at commit."""


def children_sql(moved: str, first: int) -> str:
    """The rest of a statement whose CTE `moved` gives run_id, epoch, last_seq, inputs and records (how many there
    were); its parameters begin at $`first`."""
    return CHILDREN.format(*range(first, first + 15), moved=moved)


def children(appends: Sequence[Append]) -> list[list[Any]]:
    """The arguments for `children_sql`, one list per column."""
    events = [
        (append.run_id, seq, data) for append in appends for seq, data in enumerate(append.events, append.last_seq + 1)
    ]
    records = [
        (append.run_id, number, record.role, record.data)
        for append in appends
        for number, record in enumerate(append.records, 1)
    ]
    outbox = [
        (append.run_id, one.scope, one.role, one.task_id, one.seq, one.content.encode())
        for append in appends
        for one in append.publications
    ]
    taken = [(append.run_id, row_id) for append in appends for row_id in append.taken]
    return [*columns(events, 3), *columns(records, 4), *columns(outbox, 6), *columns(taken, 2)]


def columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows as columns: PostgreSQL takes arrays."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


APPEND: Final = """
WITH given AS (
  SELECT * FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::float8[], $7::text[], $8::bigint[],
    $9::bytea[]
  ) AS g (run_id, epoch, last_seq, new_seq, state, ended_at, batch_id, records, inputs)
), moved AS (
  UPDATE archon_journal.runs AS r
  SET last_seq = g.new_seq, state = g.state, ended_at = g.ended_at, batch_id = g.batch_id,
      records = r.records + g.records
  FROM given AS g
  WHERE r.run_id = ANY($1::text[]) AND r.run_id = g.run_id AND r.epoch = g.epoch AND r.last_seq = g.last_seq
  RETURNING r.run_id, r.epoch, g.last_seq, g.inputs, r.records - g.records AS records
)""" + children_sql("moved", 10)

STORE_TURNS: Final = """
INSERT INTO archon_journal.turns (tenant, session_id, role, version, data, time)
SELECT t.*, $6::float8 FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[]) AS t
ON CONFLICT DO NOTHING RETURNING version
"""

AGAIN: Final = "SELECT run_id, epoch, batch_id FROM archon_journal.runs WHERE run_id = ANY($1::text[])"
"""A statement of its own, since it must see what another transaction committed while ours waited for the row."""


async def send_appends(connection: Connection, appends: Sequence[Append]) -> Sequence[Outcome | ArchonError]:
    """What became of each; one append a run. Sent again after a connection was lost, it stores nothing twice: the run
    has moved on, and its batch says by whom. What adds to a conversation goes by itself."""
    plain = [append for append in appends if not append.turns]
    done = dict.fromkeys(await _move(connection, plain) if plain else (), Outcome.DONE)
    for append in appends:
        if append.turns and (outcome := await _move_with_turns(connection, append)) is not None:
            done[append.run_id] = outcome
    others = [append.run_id for append in appends if append.run_id not in done]
    found = {row[0]: (row[1], row[2]) for row in await connection.fetch(AGAIN, others)} if others else {}
    return [done.get(append.run_id) or _outcome(append, found) for append in appends]


async def _move(connection: Connection, appends: Sequence[Append]) -> set[str]:
    """The runs that were moved on."""
    ordered = sorted(appends, key=lambda append: append.run_id)  # rows are locked in one order by all: no deadlock
    runs = [
        (
            append.run_id,
            append.epoch,
            append.last_seq,
            append.last_seq + len(append.events),
            append.state,
            append.time if append.ended else 0.0,
            append.batch_id,
            len(append.records),
            append.inputs,
        )
        for append in ordered
    ]
    return {row[0] for row in await connection.fetch(APPEND, *columns(runs, 9), *children(ordered))}


async def _move_with_turns(connection: Connection, append: Append) -> Outcome | None:
    """A transaction of its own, which comes to nothing where another has stored one of these versions. None where the
    run wasn't moved."""
    turns = sorted((one.tenant, one.session_id, one.role, one.version, one.data) for one in append.turns)
    try:
        async with transaction(connection):
            if not await _move(connection, [append]):
                return None
            if len(await connection.fetch(STORE_TURNS, *columns(turns, 5), append.time)) < len(turns):
                raise _OthersCameFirst
            return Outcome.DONE
    except _OthersCameFirst:
        return Outcome.CONFLICT


class _OthersCameFirst(Exception):
    """Takes the append back."""


def _outcome(append: Append, found: dict[str, tuple[int, str]]) -> Outcome:
    epoch, batch_id = found.get(append.run_id, (-1, ""))
    if epoch != append.epoch:
        return Outcome.DEPOSED
    return Outcome.DONE if batch_id == append.batch_id else Outcome.STALE
