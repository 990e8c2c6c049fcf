"""What goes into a journal, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from archon_services.orchestrator.journal.session_history import Turn


@dataclass(frozen=True, slots=True)
class Publication:
    """An answer on its way to the shared memory: an outbox row, idempotent by (scope, run, role, epoch, seq)."""

    scope: str
    role: str
    task_id: str
    seq: int
    content: str


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One recorded call, as a RunRecord's bytes."""

    role: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Append:
    """One step of one run. `events` are RunEvents' bytes, of the seqs after `last_seq`; `state` the run's state
    after them (a TaskState's number); `time` wall seconds."""

    run_id: str
    epoch: int
    last_seq: int
    batch_id: str
    time: float
    events: tuple[bytes, ...]
    inputs: bytes
    state: int
    ended: bool
    records: tuple[RecordRow, ...] = ()
    publications: tuple[Publication, ...] = ()
    taken: tuple[int, ...] = ()
    """The commands that this step carries out: they wait no more."""

    turns: tuple[Turn, ...] = ()
    """What its results add to conversations: of each conversation one at most."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is asked for. `request_id` is unique per tenant; empty: not remembered."""

    run_id: str
    tenant: str
    request_id: str
    payload_hash: bytes
    session_id: str
    owner: str
    revision: int = 1
    """Of the form of its events: whoever takes the run up must be able to read it."""


class Outcome(Enum):
    """What became of an append."""

    DONE = "done"
    STALE = "stale"  # my epoch, another last_seq: fold again
    DEPOSED = "deposed"  # another epoch: the run is somebody else's
    CONFLICT = "conflict"  # a conversation has gone on: nothing was stored


@dataclass(frozen=True, slots=True)
class RunRow:
    """The row of a run. Times in wall seconds; `ended_at` 0 before the end. `compacted`: its events are gone."""

    run_id: str
    tenant: str
    session_id: str
    owner: str
    epoch: int
    last_seq: int
    state: int
    created_at: float
    ended_at: float
    compacted: bool = False
    summary: bytes = b""
    revision: int = 1
    stalled: int = 0
    """So many times it was claimed without an event since the time before."""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A publication that hasn't been confirmed."""

    row_id: int
    run_id: str
    epoch: int
    publication: Publication
