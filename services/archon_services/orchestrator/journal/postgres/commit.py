"""The commit of a group of steps: at most two statements, so two round trips, in the caller's lane.

Creations go first, in one statement; then all other steps in one more. A step that changes no state of its run writes
no row of `runs`: its insert into `steps`, keyed by (run, base), is its own fence, since a replica that has claimed the
run first stores its claim under the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from archon.errors import AlreadyExists, RequestIdReused, Unavailable
from archon_services.orchestrator.journal.checksum import checksum_of
from archon_services.orchestrator.journal.memory.journal import same_request
from archon_services.orchestrator.journal.rows import NewRun, Outcome, Step, StepResult
from archon_services.orchestrator.journal.session_history import turn_checksum
from archon_services.postgres.connections import Connection, transaction

_CHILDREN: Final = """
, new_records AS (
  INSERT INTO archon_journal.records (run_id, ordinal, role, data)
  SELECT r.run_id, coalesce((SELECT max(o.ordinal) FROM archon_journal.records AS o WHERE o.run_id = r.run_id), 0) + n,
    r.role, r.data
  FROM unnest(${0}::text[], ${1}::bigint[], ${2}::text[], ${3}::bytea[]) AS r (run_id, n, role, data)
  WHERE r.run_id IN (SELECT run_id FROM stored)
), new_outbox AS (
  INSERT INTO archon_journal.outbox (run_id, epoch, scope, role, task_id, seq)
  SELECT o.* FROM unnest(
    ${4}::text[], ${5}::bigint[], ${6}::text[], ${7}::text[], ${8}::text[], ${9}::bigint[]
  ) AS o (run_id, epoch, scope, role, task_id, seq)
  WHERE o.run_id IN (SELECT run_id FROM stored)
), executed AS (
  DELETE FROM archon_journal.commands WHERE row_id = ANY(ARRAY(
    SELECT row_id FROM unnest(${10}::text[], ${11}::bigint[]) AS t (run_id, row_id)
    WHERE t.run_id IN (SELECT run_id FROM stored)
  ))
), new_audit AS (
  INSERT INTO archon_journal.audit (chain, tenant, time, identity, action, run_id, data)
  SELECT a.chain, a.tenant, a.time, a.identity, a.action, a.run_id, a.data FROM unnest(
    ${12}::text[], ${13}::text[], ${14}::text[], ${15}::float8[], ${16}::text[], ${17}::text[], ${18}::text[],
    ${19}::bytea[]
  ) AS a (step, chain, tenant, time, identity, action, run_id, data)
  WHERE a.step IN (SELECT run_id FROM stored)
)
SELECT run_id FROM stored
"""
"""The rows stored beside each step. No NOTIFY: it takes a lock of the whole server at commit."""


def _children_sql(first: int) -> str:
    """The end of a statement whose CTE `stored` gives the run ids of stored steps; its parameters begin at $`first`."""
    return _CHILDREN.format(*range(first, first + 20))


def _children(steps: Sequence[Step]) -> list[list[Any]]:
    """The arguments for `_children_sql`, one list per column."""
    records = [
        (step.run_id, number, record.role, record.data)
        for step in steps
        for number, record in enumerate(step.records, 1)
    ]
    outbox = [
        (step.run_id, step.epoch, row.scope, row.role, row.task_id, row.seq)
        for step in steps
        for row in step.publications
    ]
    commands = [(step.run_id, row_id) for step in steps for row_id in step.commands]
    audit = [
        (step.run_id, row.owner, row.tenant, row.time, row.identity, row.action, row.run_id, row.data)
        for step in steps
        for row in step.audit
    ]
    return [*_columns(records, 4), *_columns(outbox, 6), *_columns(commands, 2), *_columns(audit, 8)]


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows as columns: PostgreSQL takes arrays."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


_APPEND: Final = """
WITH given AS (
  SELECT * FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::bytea[], $8::integer[],
    $9::float8[], $10::boolean[], $11::bigint[], $12::bytea[], $13::bytea[]
  ) AS g (run_id, epoch, base, last_seq, batch_id, data, inputs, state, ended_at, changed, checksum, link, seal)
), ready AS (
  SELECT g.* FROM given AS g JOIN archon_journal.runs AS r ON r.run_id = g.run_id
  WHERE r.run_id = ANY($1::text[]) AND r.epoch = g.epoch AND r.ended_at = 0 AND coalesce((
    SELECT s.last_seq FROM archon_journal.steps AS s WHERE s.run_id = g.run_id ORDER BY s.base DESC LIMIT 1
  ), 0) = g.base
), changed AS (
  UPDATE archon_journal.runs AS r SET last_seq = g.last_seq, state = g.state, ended_at = g.ended_at
  FROM ready AS g WHERE g.changed AND r.run_id = g.run_id AND r.epoch = g.epoch AND r.ended_at = 0
  RETURNING r.run_id
), stored AS (
  INSERT INTO archon_journal.steps (run_id, base, last_seq, batch_id, data, inputs, checksum, link, seal)
  SELECT run_id, base, last_seq, batch_id, data, inputs, checksum, link, seal FROM ready
  WHERE NOT changed OR run_id IN (SELECT run_id FROM changed)
  RETURNING run_id
)""" + _children_sql(14)

_CREATE: Final = """
WITH given AS (
  SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::integer[],
    $10::float8[], $11::float8[], $12::text[], $13::bytea[], $14::bytea[], $15::integer[],
    $16::bigint[], $17::bytea[], $18::bytea[]
  ) AS g (run_id, tenant, request_id, payload_hash, session_id, owner, epoch, last_seq, state, created_at, ended_at,
          batch_id, data, inputs, revision, checksum, link, seal)
), asked AS (
  INSERT INTO archon_journal.requests (tenant, request_id, payload_hash, run_id)
  SELECT g.tenant, g.request_id, g.payload_hash, g.run_id FROM given AS g WHERE g.request_id <> ''
    AND NOT EXISTS (SELECT 1 FROM archon_journal.runs AS r WHERE r.run_id = g.run_id)
  ON CONFLICT DO NOTHING
  RETURNING run_id
), made AS (
  INSERT INTO archon_journal.runs
    (run_id, tenant, session_id, owner, epoch, last_seq, state, created_at, ended_at, revision)
  SELECT run_id, tenant, session_id, owner, epoch, last_seq, state,
    CASE WHEN newest > created_at THEN newest + 1e-6 ELSE created_at END, ended_at, revision
  FROM given LEFT JOIN LATERAL (
    SELECT r.created_at AS newest FROM archon_journal.runs AS r WHERE r.tenant = given.tenant
    ORDER BY r.created_at DESC LIMIT 1
  ) AS earlier ON true
  WHERE request_id = '' OR run_id IN (SELECT run_id FROM asked)
  ON CONFLICT DO NOTHING
  RETURNING run_id
), stored AS (
  INSERT INTO archon_journal.steps (run_id, base, last_seq, batch_id, data, inputs, checksum, link, seal)
  SELECT run_id, 0, last_seq, batch_id, data, inputs, checksum, link, seal FROM given
  WHERE run_id IN (SELECT run_id FROM made)
  RETURNING run_id
)""" + _children_sql(19)

_STORE_TURNS: Final = """
INSERT INTO archon_journal.turns (tenant, session_id, role, version, data, checksum, time)
SELECT t.*, $7::float8 FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::bigint[]) AS t
ON CONFLICT DO NOTHING RETURNING version
"""

_LAST_STEP: Final = """
SELECT r.run_id, r.epoch, s.batch_id FROM archon_journal.runs AS r LEFT JOIN LATERAL (
  SELECT batch_id FROM archon_journal.steps WHERE run_id = r.run_id ORDER BY base DESC LIMIT 1
) AS s ON true
WHERE r.run_id = ANY($1::text[])
"""
"""A statement of its own, since it must see the commits of other transactions in the meantime."""

_KNOWN: Final = """
SELECT g.n, q.payload_hash, q.run_id, s.batch_id, r.run_id IS NOT NULL
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS g (n, tenant, request_id, run_id)
LEFT JOIN archon_journal.requests AS q ON g.request_id <> '' AND q.tenant = g.tenant AND q.request_id = g.request_id
LEFT JOIN archon_journal.runs AS r ON r.run_id = g.run_id
LEFT JOIN archon_journal.steps AS s ON s.run_id = g.run_id AND s.base = 0
"""


async def send_steps(connection: Connection, steps: Sequence[Step]) -> Sequence[StepResult]:
    """Returns the result of each step. Sent again after a connection was lost, it stores nothing twice: the run has
    moved
    on, and the batch of its last step says whose step that was. A step with turns is a transaction of its own."""
    results: dict[str, StepResult] = {}
    if creations := [step for step in steps if step.new is not None]:
        results |= await _create(connection, creations)
    plain = [step for step in steps if step.new is None and not step.turns]
    if plain:
        results |= dict.fromkeys(await _append(connection, plain), Outcome.DONE)
    for step in steps:
        if step.new is None and step.turns and (outcome := await _append_with_turns(connection, step)) is not None:
            results[step.run_id] = outcome
    refused = [step for step in steps if step.run_id not in results]
    if refused:
        rows = await connection.fetch(_LAST_STEP, [step.run_id for step in refused])
        last = {row[0]: (row[1], row[2]) for row in rows}
        results |= {step.run_id: _refusal(step, last) for step in refused}
    return [results[step.run_id] for step in steps]


async def _append(connection: Connection, steps: Sequence[Step]) -> set[str]:
    """Returns the runs whose step was stored."""
    ordered = sorted(steps, key=lambda step: step.run_id)  # all replicas lock rows in one order: no deadlock
    rows = [
        (
            step.run_id,
            step.epoch,
            step.base,
            step.last_seq,
            step.batch_id,
            step.data,
            step.inputs,
            step.state,
            step.time if step.ended else 0.0,
            step.state_changed or step.ended,
            checksum_of(step),
            step.link or None,
            step.seal or None,
        )
        for step in ordered
    ]
    try:
        return {row[0] for row in await connection.fetch(_APPEND, *_columns(rows, 13), *_children(ordered))}
    except asyncpg.UniqueViolationError:
        # Another replica stored a step after the same base at the same moment. Of a group, each goes by itself.
        if len(steps) > 1:
            raise
        return set()


async def _append_with_turns(connection: Connection, step: Step) -> Outcome | None:
    """Returns CONFLICT if another step has stored one of these turns, None if the step's own condition did not hold."""
    turns = sorted(
        (turn.tenant, turn.session_id, turn.role, turn.version, turn.data, turn_checksum(turn)) for turn in step.turns
    )
    try:
        async with transaction(connection):
            if not await _append_once(connection, step):
                return None
            if len(await connection.fetch(_STORE_TURNS, *_columns(turns, 6), step.time)) < len(turns):
                raise _TurnConflict
            return Outcome.DONE
    except _TurnConflict:
        return Outcome.CONFLICT
    except asyncpg.UniqueViolationError:
        return None


async def _append_once(connection: Connection, step: Step) -> bool:
    row = (step.run_id, step.epoch, step.base, step.last_seq, step.batch_id, step.data, step.inputs, step.state,
           step.time if step.ended else 0.0, step.state_changed or step.ended,
           checksum_of(step), step.link or None, step.seal or None)  # fmt: skip
    return bool(await connection.fetch(_APPEND, *_columns([row], 13), *_children([step])))


class _TurnConflict(Exception):
    """Rolls the step back."""


def _refusal(step: Step, last: dict[str, tuple[int, str | None]]) -> Outcome:
    epoch, batch_id = last.get(step.run_id, (-1, None))
    if epoch != step.epoch or batch_id is None:
        return Outcome.DEPOSED
    return Outcome.DONE if batch_id == step.batch_id else Outcome.STALE


async def _create(connection: Connection, steps: Sequence[Step]) -> dict[str, StepResult]:
    """Creates runs. Of several creations with one request id one succeeds, in whichever process they are. Sent again
    after a connection was lost, it finds its own run and reports it as created."""
    creations = [(step.new, step) for step in steps if step.new is not None]
    ordered = sorted(creations, key=lambda pair: (pair[0].tenant, pair[0].request_id))  # one order of locks
    rows = [
        (
            new.run_id,
            new.tenant,
            new.request_id,
            new.payload_hash,
            new.session_id,
            new.owner,
            step.epoch,
            step.last_seq,
            step.state,
            step.time,
            step.time if step.ended else 0.0,
            step.batch_id,
            step.data,
            step.inputs,
            new.revision,
            checksum_of(step),
            step.link or None,
            step.seal or None,
        )
        for new, step in ordered
    ]
    made = await connection.fetch(_CREATE, *_columns(rows, 18), *_children([step for _, step in ordered]))
    results: dict[str, StepResult] = {row[0]: Outcome.DONE for row in made}
    others = [
        (number, new.tenant, new.request_id, new.run_id)
        for number, (new, _) in enumerate(creations)
        if new.run_id not in results
    ]
    if others:
        for number, payload_hash, run_id, batch_id, exists in await connection.fetch(_KNOWN, *_columns(others, 4)):
            new, step = creations[number]
            results[new.run_id] = _known(new, step, payload_hash, run_id, batch_id, exists)
    return results


def _known(
    new: NewRun, step: Step, payload_hash: bytes | None, run_id: str | None, batch_id: str | None, exists: bool
) -> StepResult:
    """The result for a run that was not created: the same request's run, this very creation, or another run's id."""
    if run_id is not None and payload_hash is not None and run_id != new.run_id:
        try:
            return same_request(payload_hash, new, run_id)
        except RequestIdReused as error:
            return error
    if batch_id == step.batch_id:
        return Outcome.DONE
    if exists:
        return AlreadyExists(f"run {new.run_id!r} exists already", metadata={"run_id": new.run_id})
    return Unavailable("the same request was being deleted", retry_delay=0.1)
