"""Rows of a journal: the steps that are written to it, and the rows that are read back."""

from __future__ import annotations

from enum import Enum

from archon.errors import ArchonError, DataLoss
from archon_mesh.core.value import value
from archon_services.common.audit_entry import AuditRow
from archon_services.orchestrator.journal.session_history import Turn


@value
class Publication:
    """An answer to publish in the shared memory. Its text is the text of the result event `seq`."""

    scope: str
    role: str
    task_id: str
    seq: int


@value
class RecordRow:
    """One recorded model or tool call, as `convert.stored_record` writes it."""

    role: str
    data: bytes


@value
class NewRun:
    """A run to create. `request_id` is unique per tenant; empty if the caller gave none."""

    run_id: str
    tenant: str
    request_id: str
    payload_hash: bytes
    session_id: str
    owner: str
    revision: int = 1
    """Form of its events: only a replica that can fold this revision may take the run over."""


@value
class Step:
    """The data that one decision of a run stores, in one transaction.

    `data` holds the RunEvents after `base`, up to `last_seq`, framed as a WatchRunResponse (field 1, repeated), so that
    watchers get the stored bytes. `state` is the number of the run's TaskState after the step; `time` is when it was
    decided, in wall seconds of the journal's clock: the times of its events and inputs follow the run's clock.
    """

    run_id: str
    epoch: int
    base: int
    last_seq: int
    batch_id: str
    time: float
    data: bytes
    inputs: bytes
    state: int
    ended: bool = False
    state_changed: bool = True
    """Whether `state` differs from the state before the step: only then the run's row is written."""

    new: NewRun | None = None
    """Set for the first step, which creates the run."""

    records: tuple[RecordRow, ...] = ()
    publications: tuple[Publication, ...] = ()
    commands: tuple[int, ...] = ()
    """Rows of the commands that this step executes; they are deleted with it."""

    turns: tuple[Turn, ...] = ()
    """Turns that its results add to conversations, at most one for each conversation."""

    link: bytes = b""
    """Its link in the chain of the run (archon.history); empty if the writer keeps no chain."""

    seal: bytes = b""
    """The seal on its link; empty if it is not sealed."""

    seal_reason: int = 0
    """Why it must be sealed before it is stored (archon.history.SealReason); 0: it is not sealed."""

    audit: tuple[AuditRow, ...] = ()
    """Entries of the audit log about the commands that it executes."""

    @property
    def size(self) -> int:
        """Bytes of its events, inputs and records."""
        size = len(self.data) + len(self.inputs)
        return size if not self.records else size + sum([len(record.data) for record in self.records])


class Outcome(Enum):
    """The outcome of a step."""

    DONE = "done"
    STALE = "stale"  # same epoch, another last event: load the run again
    DEPOSED = "deposed"  # another epoch: another replica has taken over the run
    CONFLICT = "conflict"  # another turn of a conversation was stored first; nothing was written


@value
class SameRequest:
    """A run was not created, since the same request created `run_id` before."""

    run_id: str


StepResult = Outcome | SameRequest | ArchonError
"""An ArchonError if it is not known whether the step was stored (Unavailable), or if the store refused it."""


@value
class StoredStep:
    """A step as it is read back. `data` and `link` as in Step."""

    base: int
    last_seq: int
    data: bytes
    link: bytes = b""


@value
class RunRow:
    """The row of a run. Times are in wall seconds; `created_at` is later than in all earlier runs of the tenant, even
    if the clock was set back, `ended_at` is 0 before the end. If `compacted`, its steps are gone."""

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
    """Number of claims since the last event was stored; claims of a run that was released on purpose do not count."""

    released: bool = False
    """Of a claim: whether the owner before had left on purpose."""


@value
class EndedRun:
    """A run that has ended, and its last owner. `ended_at` is in wall seconds."""

    run_id: str
    owner: str
    ended_at: float


@value
class OutboxRow:
    """A publication that is not confirmed. `content` is set only in rows of earlier versions, which stored the text;
    else `data` belongs to the step that holds the result, empty if the step is gone."""

    row_id: int
    run_id: str
    epoch: int
    publication: Publication
    data: bytes
    content: str | None = None
    damage: DataLoss | None = None
    """Set if the answer cannot be read; `data` is empty then."""
