"""The journal in memory: for a mesh that needs to survive nothing, and for the simulation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from archon.errors import AlreadyExists, ArchonError, RequestIdReused
from archon.history import RecordedStep
from archon_services.orchestrator.journal.memory.chains import MemoryChains
from archon_services.orchestrator.journal.memory.daily_usage import MemoryDailyUsage
from archon_services.orchestrator.journal.memory.learning import MemoryLearning
from archon_services.orchestrator.journal.memory.retained import MemoryMarks
from archon_services.orchestrator.journal.memory.triggers import MemoryTriggers
from archon_services.orchestrator.journal.page import OPENING_BYTES, PAGE_BYTES, page_of
from archon_services.orchestrator.journal.retained import DetailedRun
from archon_services.orchestrator.journal.rows import (
    EndedRun,
    NewRun,
    OutboxRow,
    Outcome,
    RunRow,
    SameRequest,
    Step,
    StepResult,
    StoredStep,
)
from archon_services.orchestrator.journal.session_history import (
    HISTORY_BYTES,
    HISTORY_TURNS,
    Conversation,
    Turn,
)


@dataclass(slots=True)
class _Steps:
    """The steps of one run."""

    steps: list[StoredStep] = field(default_factory=list)
    inputs: list[tuple[int, bytes]] = field(default_factory=list)
    links: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Link and seal of each step."""

    records: list[tuple[str, bytes]] = field(default_factory=list)
    batch_id: str = ""


class MemoryJournal(MemoryTriggers, MemoryLearning, MemoryMarks, MemoryDailyUsage, MemoryChains):
    """Keeps every promise of the port, except to outlive the process."""

    durability = "none"
    inline = True

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self._stored: dict[str, _Steps] = {}
        self._requests: dict[tuple[str, str], tuple[bytes, str, float]] = {}
        self._outbox: dict[int, OutboxRow] = {}
        self._next_row = 1
        self._turns: dict[tuple[str, str, str], list[tuple[int, bytes, float]]] = {}
        self._newest: dict[str, float] = {}
        """When the newest run of each tenant was created."""

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def commit(self, steps: Sequence[Step]) -> list[StepResult]:
        results: list[StepResult] = []
        for step in steps:
            try:
                results.append(self._commit(step))
            except ArchonError as error:
                results.append(error)
        return results

    def _commit(self, step: Step) -> Outcome | SameRequest:
        if step.new is not None:
            return self._create(step.new, step)
        row = self._rows.get(step.run_id)
        if row is None or row.epoch != step.epoch or row.compacted:
            return Outcome.DEPOSED
        if row.last_seq != step.base or row.ended_at:
            return Outcome.DONE if self._stored[step.run_id].batch_id == step.batch_id else Outcome.STALE
        if step.turns and any(self._version(turn) >= turn.version for turn in step.turns):
            return Outcome.CONFLICT
        self._store(step, row)
        return Outcome.DONE

    def _create(self, new: NewRun, step: Step) -> Outcome | SameRequest:
        stored = self._stored.get(new.run_id)
        if stored is not None and stored.batch_id == step.batch_id:
            return Outcome.DONE
        if new.request_id:
            request = self._requests.get((new.tenant, new.request_id))
            if request is not None:
                return same_request(request[0], new, request[1])
        if new.run_id in self._rows:
            raise AlreadyExists(f"run {new.run_id!r} exists already", metadata={"run_id": new.run_id})
        if new.request_id:
            self._requests[new.tenant, new.request_id] = (new.payload_hash, new.run_id, 0.0)
        newest = self._newest.get(new.tenant, 0.0)
        created_at = self._newest[new.tenant] = newest + 1e-6 if newest > step.time else step.time
        self._stored[new.run_id] = _Steps()
        self._open[new.run_id] = None
        row = RunRow(
            new.run_id,
            new.tenant,
            new.session_id,
            new.owner,
            step.epoch,
            last_seq=0,
            state=0,
            created_at=created_at,
            ended_at=0.0,
            revision=new.revision,
        )
        self._store(step, row)
        return Outcome.DONE

    def _store(self, step: Step, row: RunRow) -> None:
        self._rows[step.run_id] = RunRow(  # not `replace`, which takes five times as long
            row.run_id,
            row.tenant,
            row.session_id,
            row.owner,
            row.epoch,
            step.last_seq,
            step.state,
            row.created_at,
            step.time if step.ended else 0.0,
            row.compacted,
            row.summary,
            row.revision,
            row.stalled,
        )
        if step.ended:
            self._open.pop(step.run_id, None)
        stored = self._stored[step.run_id]
        stored.batch_id = step.batch_id
        stored.steps.append(StoredStep(step.base, step.last_seq, step.data, step.link))
        stored.inputs.append((step.base, step.inputs))
        stored.links.append((step.link, step.seal))
        self._add_audit(step.audit)
        stored.records += [(record.role, record.data) for record in step.records]
        for row_id in step.commands:
            self._commands.pop(row_id, None)
        for turn in step.turns:
            turns = self._turns.setdefault((turn.tenant, turn.session_id, turn.role), [])
            turns.append((turn.version, turn.data, step.time))
        for publication in step.publications:
            self._outbox[self._next_row] = OutboxRow(self._next_row, step.run_id, step.epoch, publication, step.data)
            self._next_row += 1

    async def request(self, tenant: str, request_id: str) -> tuple[bytes, str] | None:
        request = self._requests.get((tenant, request_id))
        return request[:2] if request is not None else None

    async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
        size, newest = 0, []
        for version, data, _ in reversed(self._turns.get((tenant, session_id, role), [])[-HISTORY_TURNS:]):
            size += len(data)
            if size > HISTORY_BYTES:
                break
            newest.append((version, data))
        newest.reverse()
        return Conversation(newest[-1][0] if newest else 0, tuple(data for _, data in newest))

    def _version(self, turn: Turn) -> int:
        stored = self._turns.get((turn.tenant, turn.session_id, turn.role))
        return stored[-1][0] if stored else 0

    async def steps(
        self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = PAGE_BYTES
    ) -> list[StoredStep]:
        stored = self._stored.get(run_id)
        steps = stored.steps if stored is not None else []
        first = len(steps)
        while first and steps[first - 1].last_seq > after_seq:
            first -= 1
        return page_of(steps[first : first + limit], max_bytes, lambda step: len(step.data))

    async def inputs(self, run_id: str) -> list[tuple[int, bytes]]:
        stored = self._stored.get(run_id)
        return list(stored.inputs) if stored is not None else []

    async def recorded_steps(
        self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = PAGE_BYTES
    ) -> list[RecordedStep]:
        stored = self._stored.get(run_id, _Steps())
        steps = [
            RecordedStep(step.base, step.last_seq, step.data, inputs, link, seal)
            for step, (_, inputs), (link, seal) in zip(stored.steps, stored.inputs, stored.links, strict=True)
            if step.base >= after_seq
        ]
        return page_of(steps[:limit], max_bytes, lambda step: len(step.data) + len(step.inputs))

    async def size(self, run_id: str) -> int:
        stored = self._stored.get(run_id)
        if stored is None:
            return 0
        steps = sum(len(step.data) for step in stored.steps) + sum(len(inputs) for _, inputs in stored.inputs)
        return steps + sum(len(data) for _, data in stored.records)

    async def run(self, run_id: str) -> RunRow | None:
        return self._rows.get(run_id)

    async def runs(
        self,
        *,
        tenant: str,
        session_id: str = "",
        states: Sequence[int] = (),
        before: tuple[float, str] | None = None,
        since: float = 0.0,
        limit: int = 100,
    ) -> list[RunRow]:
        rows = [
            row
            for row in self._rows.values()
            if row.tenant == tenant
            and (not session_id or row.session_id == session_id)
            and (not states or row.state in states)
            and (before is None or (row.created_at, row.run_id) < before)
            and row.created_at >= since
        ]
        return sorted(rows, key=lambda row: (row.created_at, row.run_id), reverse=True)[:limit]

    async def openings(self, run_ids: Sequence[str]) -> dict[str, bytes]:
        stored = {run_id: self._stored[run_id].steps for run_id in run_ids if run_id in self._stored}
        return {run_id: steps[0].data[:OPENING_BYTES] for run_id, steps in stored.items() if steps}

    async def last_run_id(self) -> str:
        return max(self._rows, default="")

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100, max_bytes: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        stored = self._stored.get(run_id)
        numbered = enumerate(stored.records if stored is not None else [], 1)
        found = [(n, data) for n, (of_role, data) in numbered if n > after and (not role or of_role == role)]
        return page_of(found[:limit], max_bytes, lambda record: len(record[1]))

    async def outbox(
        self, owner: str, limit: int = 100, *, scope: str = "", without: Collection[str] = ()
    ) -> list[OutboxRow]:
        others = self._living.keys() - {owner}
        return [
            row
            for row in self._outbox.values()
            if self._owner_of(row.run_id) not in others
            and row.publication.scope not in without
            and scope in ("", row.publication.scope)
        ][:limit]

    async def unpublished(self, scope: str) -> bool:
        return any(row.publication.scope == scope for row in self._outbox.values())

    async def published(self, row_ids: Sequence[int]) -> None:
        for row_id in row_ids:
            self._outbox.pop(row_id, None)

    async def last_ended(self, limit: int) -> list[EndedRun]:
        ended = [EndedRun(row.run_id, row.owner, row.ended_at) for row in self._rows.values() if row.ended_at]
        return sorted(ended, key=lambda run: run.ended_at, reverse=True)[:limit]

    async def compactable(self, ended_before: float, limit: int = 100, *, revision: int = 1) -> list[str]:
        pending = {row.run_id for row in self._outbox.values()}
        return [
            row.run_id
            for row in self._rows.values()
            if 0 < row.ended_at < ended_before
            and not row.compacted
            and row.run_id not in pending
            and row.revision <= revision
        ][:limit]

    async def detailed_runs(
        self, ended_before: float, after: tuple[float, str], limit: int, *, revision: int = 1
    ) -> list[DetailedRun]:
        due = await self.compactable(ended_before, len(self._rows), revision=revision)
        rows = sorted((self._rows[run_id] for run_id in due), key=lambda row: (row.ended_at, row.run_id))
        return [
            DetailedRun(row.run_id, row.tenant, row.state, row.ended_at, bool(self._marks.get(row.run_id)))
            for row in rows
            if (row.ended_at, row.run_id) > after
        ][:limit]

    async def compact(self, run_id: str, summary: bytes) -> None:
        self._rows[run_id] = replace(self._rows[run_id], compacted=True, summary=summary)
        self._stored[run_id] = _Steps()

    async def bound_times(self, latest: float) -> None:
        for run_id, row in self._rows.items():
            if row.ended_at > latest:
                self._rows[run_id] = replace(row, ended_at=latest)
        for key, turns in self._turns.items():
            self._turns[key] = [(version, data, min(time, latest)) for version, data, time in turns]

    async def delete(
        self, ended_before: float, now: float, request_ttl: float, *, turns_before: float | None = None
    ) -> int:
        turns_before = ended_before if turns_before is None else turns_before
        deleted = {row.run_id for row in self._rows.values() if 0 < row.ended_at < ended_before}
        for run_id in deleted:
            del self._rows[run_id], self._stored[run_id]
            self._claimed_at.pop(run_id, None)
            self._ratings.pop(run_id, None)
            self._marks.pop(run_id, None)
        self._learned_outcomes = {mark for mark in self._learned_outcomes if mark[0] not in deleted}
        self._outbox = {row_id: row for row_id, row in self._outbox.items() if row.run_id not in deleted}
        self._commands = {row_id: row for row_id, row in self._commands.items() if row.run_id not in deleted}
        for key, turns in list(self._turns.items()):
            self._turns[key] = [turn for turn in turns if turn[2] >= turns_before]
            if not self._turns[key]:
                del self._turns[key]
        for request, (payload_hash, run_id, expires) in list(self._requests.items()):
            if run_id in deleted:
                self._requests[request] = (payload_hash, run_id, now + request_ttl)
            elif 0 < expires < now:
                del self._requests[request]
        return len(deleted)


def same_request(payload_hash: bytes, new: NewRun, run_id: str) -> SameRequest:
    """Returns the run that the same request created before. Raises RequestIdReused if the payload is another one."""
    if payload_hash != new.payload_hash:
        raise RequestIdReused(
            f"request id {new.request_id!r} was used before with another payload",
            metadata={"request_id": new.request_id, "run_id": run_id},
        )
    return SameRequest(run_id)
