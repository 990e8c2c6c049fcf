"""Learned weights of the journal in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from archon_services.orchestrator.journal.learning import MAX_VERSIONS, EvidenceRow, LearnedRow, UnlearnedRow
from archon_services.orchestrator.journal.memory.track_records import MemoryTrackRecords


class MemoryLearning(MemoryTrackRecords):
    """The LearningStore part of MemoryJournal."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self._learned: dict[str, list[LearnedRow]] = {}
        self._evidence: dict[str, EvidenceRow] = {}
        self._learned_outcomes: set[tuple[str, str]] = set()

    async def learned_versions(self, tenant: str, before: int = 0, limit: int = 100) -> list[LearnedRow]:
        rows = [row for row in reversed(self._learned.get(tenant, [])) if not before or row.version < before]
        return rows[:limit]

    async def learned_evidence(self, tenant: str) -> EvidenceRow:
        return self._evidence.get(tenant, EvidenceRow(0, b""))

    async def learned_tenants(self) -> list[str]:
        return sorted(self._learned)

    async def unlearned(self, after: float, limit: int, without: Collection[str] = ()) -> list[UnlearnedRow]:
        runs = [row for row in self._rows.values() if row.ended_at > after and not row.compacted]
        ends = [UnlearnedRow(row.run_id, row.tenant, row.ended_at) for row in runs]
        ratings = [
            UnlearnedRow(run_id, self._rows[run_id].tenant, rating.time, True, rating.identity, rating.stars)
            for run_id, by_identity in self._ratings.items()
            if run_id in self._rows
            for rating in by_identity.values()
            if rating.time > after
        ]
        return [
            *self._oldest([row for row in ends if row.tenant not in without], limit),
            *self._oldest([row for row in ratings if row.tenant not in without], limit),
        ]

    def _oldest(self, rows: list[UnlearnedRow], limit: int) -> list[UnlearnedRow]:
        open_rows = [row for row in rows if (row.run_id, row.source) not in self._learned_outcomes]
        return sorted(open_rows, key=lambda row: (row.time, row.run_id, row.source))[:limit]

    async def learn(
        self,
        tenant: str,
        revision: int,
        evidence: bytes,
        outcomes: Sequence[UnlearnedRow] = (),
        version: LearnedRow | None = None,
    ) -> bool:
        marks = {(outcome.run_id, outcome.source) for outcome in outcomes}
        rows = self._learned.get(tenant, [])
        if self._evidence.get(tenant, EvidenceRow(0, b"")).revision != revision or marks & self._learned_outcomes:
            return False
        if version is not None:
            if any(row.version == version.version for row in rows):
                return False
            self._learned[tenant] = sorted([*rows, version], key=lambda row: row.version)[-MAX_VERSIONS:]
        self._evidence[tenant] = EvidenceRow(revision + 1, evidence)
        self._learned_outcomes |= marks
        return True
