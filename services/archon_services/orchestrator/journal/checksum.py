"""The checksum of a step, which is stored in its row: a row that changed after it was written is noticed.

The checksum covers the run id, the numbers of the events, the events and the inputs, so that a row that was moved to
another run or to another place of its run is noticed too. Rows of versions before the checksum have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from zlib import crc32

from archon.errors import DataLoss
from archon_services.orchestrator.journal.rows import OutboxRow, Publication, Step, StoredStep

Row = Sequence[Any]
"""The columns base, last_seq, data, inputs and checksum of a row of `steps`."""

_TYPES: Final = (int, int, bytes, bytes)
"""SQLite stores a value of any type in any column."""


def checksum_of(step: Step) -> int:
    """Returns the checksum to store with a step, 32 bits."""
    return _checksum(step.run_id, step.base, step.last_seq, step.data, step.inputs)


def checked_steps(run_id: str, rows: Iterable[Row], after_seq: int) -> list[StoredStep]:
    """Returns the steps that end after event `after_seq`. `rows`, which have the link as a further column, are in
    order; the first one begins at `after_seq` or before it. Raises DataLoss if a row is not as it was written, or if
    one is missing."""
    steps: list[StoredStep] = []
    end = after_seq
    for row in rows:
        _check(run_id, row[:5])
        base, last_seq, data, _, _, link = row
        if base > end:
            raise DataLoss(f"run {run_id}: event {end + 1} is missing in the journal", metadata={"run_id": run_id})
        end = last_seq
        if last_seq > after_seq:
            steps.append(StoredStep(base, last_seq, data, link if isinstance(link, bytes) else b""))
    return steps


def checked_inputs(run_id: str, rows: Iterable[Row]) -> list[tuple[int, bytes]]:
    """Returns (base, inputs) of each row. Raises DataLoss if a row is not as it was written."""
    inputs: list[tuple[int, bytes]] = []
    for row in rows:
        _check(run_id, row)
        inputs.append((row[0], row[3]))
    return inputs


def read_outbox_row(row: Sequence[Any]) -> OutboxRow:
    """Reads a row of the outbox (row_id, run_id, epoch, scope, role, task_id, seq, content), followed by the columns of
    the step that holds the result, which are None if the step is gone. Damage of one row is kept in it, so that
    the others can be published."""
    row_id, run_id, epoch, scope, role, task_id, seq, content, *step = row
    publication = Publication(scope, role, task_id, seq)
    try:
        text = content.decode() if isinstance(content, bytes) else content
        if step[0] is not None:
            _check(run_id, step)
    except UnicodeDecodeError:
        damage = DataLoss(f"run {run_id}: an answer in the outbox is no text", metadata={"run_id": run_id})
        return OutboxRow(row_id, run_id, epoch, publication, b"", damage=damage)
    except DataLoss as damage:
        return OutboxRow(row_id, run_id, epoch, publication, b"", text, damage)
    return OutboxRow(row_id, run_id, epoch, publication, step[2] or b"", text)


def of_run(run_id: str, error: DataLoss) -> DataLoss:
    """Returns the error of a store that cannot read its data of a run."""
    return DataLoss(f"run {run_id} cannot be read: {error.message}", metadata={"run_id": run_id})


def _check(run_id: str, row: Row) -> None:
    base, last_seq, data, inputs, checksum = row
    if tuple(map(type, row[:4])) == _TYPES and (
        checksum is None or checksum == _checksum(run_id, base, last_seq, data, inputs)
    ):
        return
    text = f"run {run_id}: the step after event {base}, up to event {last_seq}, is damaged in the journal"
    raise DataLoss(text, metadata={"run_id": run_id})


def _checksum(run_id: str, base: int, last_seq: int, data: bytes, inputs: bytes) -> int:
    key = f"{run_id}/{base}/{last_seq}/{len(data)}".encode("utf-8", "surrogatepass")
    return crc32(inputs, crc32(data, crc32(key)))
