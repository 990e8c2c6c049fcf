"""Taking runs on: a group of new runs with their request ids and first events, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from archon.errors import AlreadyExists, ArchonError, RequestIdReused, Unavailable
from archon_services.orchestrator.journal.memory.journal import same_request
from archon_services.orchestrator.journal.postgres.append import children, children_sql, columns
from archon_services.orchestrator.journal.rows import Append, NewRun
from archon_services.postgres.connections import Connection


@dataclass(frozen=True, slots=True)
class Creation:
    """A run that is asked for, and its first append."""

    new: NewRun
    first: Append


CREATE: Final = """
WITH given AS (
  SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::integer[],
    $10::float8[], $11::float8[], $12::text[], $13::bigint[], $14::bytea[],
    $15::integer[]
  ) AS g (run_id, tenant, request_id, payload_hash, session_id, owner, epoch, new_seq, state, created_at, ended_at,
          batch_id, records, inputs, revision)
), asked AS (
  INSERT INTO archon_journal.requests (tenant, request_id, payload_hash, run_id)
  SELECT tenant, request_id, payload_hash, run_id FROM given WHERE request_id <> ''
  ON CONFLICT DO NOTHING
  RETURNING run_id
), made AS (
  INSERT INTO archon_journal.runs
    (run_id, tenant, session_id, owner, epoch, last_seq, state, batch_id, records, created_at, ended_at, revision)
  SELECT
    run_id, tenant, session_id, owner, epoch, new_seq, state, batch_id, records, created_at, ended_at, revision
  FROM given WHERE request_id = '' OR run_id IN (SELECT run_id FROM asked)
  ON CONFLICT DO NOTHING
  RETURNING run_id
), moved AS (
  SELECT run_id, epoch, 0 AS last_seq, inputs, 0 AS records FROM made JOIN given USING (run_id)
)""" + children_sql("moved", 16)

AGAIN: Final = """
SELECT g.n, q.payload_hash, q.run_id, r.batch_id
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS g (n, tenant, request_id, run_id)
LEFT JOIN archon_journal.requests AS q ON g.request_id <> '' AND q.tenant = g.tenant AND q.request_id = g.request_id
LEFT JOIN archon_journal.runs AS r ON r.run_id = g.run_id
"""


async def send_creations(
    connection: Connection, creations: Sequence[Creation]
) -> Sequence[tuple[str, bool] | ArchonError]:
    """(run_id, whether it is new) of each; one creation a run id. Of several with one request id one is new, in
    whatever process they are. Sent again after a connection was lost, it finds its own run and calls it new."""
    ordered = sorted(creations, key=lambda one: (one.new.tenant, one.new.request_id))  # one order of locks for all
    rows = [
        (
            one.new.run_id,
            one.new.tenant,
            one.new.request_id,
            one.new.payload_hash,
            one.new.session_id,
            one.new.owner,
            one.first.epoch,
            len(one.first.events),
            one.first.state,
            one.first.time,
            one.first.time if one.first.ended else 0.0,
            one.first.batch_id,
            len(one.first.records),
            one.first.inputs,
            one.new.revision,
        )
        for one in ordered
    ]
    firsts = [one.first for one in ordered]
    made = {row[0] for row in await connection.fetch(CREATE, *columns(rows, 15), *children(firsts))}
    others = [(n, one.new) for n, one in enumerate(creations) if one.new.run_id not in made]
    results: list[tuple[str, bool] | ArchonError] = [(one.new.run_id, True) for one in creations]
    if others:
        asked = [(n, new.tenant, new.request_id, new.run_id) for n, new in others]
        for n, payload_hash, run_id, batch_id in await connection.fetch(AGAIN, *columns(asked, 4)):
            results[n] = _known(creations[n], payload_hash, run_id, batch_id)
    return results


def _known(
    one: Creation, payload_hash: bytes | None, run_id: str | None, batch_id: str | None
) -> tuple[str, bool] | ArchonError:
    """What a run that wasn't made is: the same request's, one that an earlier try made, or somebody else's id."""
    new = one.new
    if run_id is not None and payload_hash is not None and run_id != new.run_id:
        try:
            return same_request(payload_hash, new, run_id)
        except RequestIdReused as error:
            return error
    if batch_id == one.first.batch_id:
        return new.run_id, True
    if batch_id is not None:
        return AlreadyExists(f"there is a run {new.run_id!r} already", metadata={"run_id": new.run_id})
    return Unavailable("the same request was just being forgotten", retry_delay=0.1)
