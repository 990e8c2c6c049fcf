"""Learns from the outcomes in the journal, and keeps the weights of each tenant for the runs of this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from archon.api.orchestrator.v1 import run_pb2
from archon.background import BackgroundLoop
from archon.errors import ArchonError, DataLoss, LearnedVersionDecided, ResourceExhausted, Unavailable
from archon.errors import UnknownLearnedVersion as UnknownVersion
from archon_services.orchestrator.convert import from_journal
from archon_services.orchestrator.convert.run_view import run_to_proto
from archon_services.orchestrator.convert.stored_record import record_from_journal
from archon_services.orchestrator.journal import Journal, LearnedRow, UnlearnedRow
from archon_services.orchestrator.learning import versions as ver
from archon_services.orchestrator.learning.choice import choices_of
from archon_services.orchestrator.learning.outcomes import of_rating, of_records, of_tasks
from archon_services.orchestrator.learning.versions import NOTHING, Version
from archon_services.orchestrator.learning.weights import NEUTRAL, Outcome, Subject, observed
from archon_services.orchestrator.runs.states.load import load_run

_log = logging.getLogger(__name__)

INTERVAL: Final = 5.0
"""Seconds between two looks at the journal."""

WINDOW: Final = 86_400.0
"""Seconds for which a process looks back when it starts: older outcomes that were not learned are not learned."""

OVERLAP: Final = 300.0
"""Seconds by which each look begins before the newest outcome of the last one: commits of other replicas may come
later, with an earlier time."""

BATCH: Final = 200
"""Outcomes of one look: ends of runs, and as many ratings."""

MAX_RECORDS: Final = 500
"""Recorded calls of a run that are read."""

ATTEMPTS: Final = 5
"""Times that a person's decision is tried while other replicas learn."""


class Learner:
    """`now` returns wall seconds by the journal's clock. A change of a weight of more than `approve_above` from the
    weight that a person approved last waits for a person."""

    def __init__(self, journal: Journal, now: Callable[[], float], *, approve_above: float) -> None:
        self._journal = journal
        self._now = now
        self._approve_above = approve_above
        self._since: float | None = None
        self._in_use: dict[str, Version] = {}
        self._held: set[str] = set()
        """Tenants whose outcomes wait: for a person, or because their versions are damaged."""
        self._loop = BackgroundLoop("learning", self._run, expected=(ArchonError, TimeoutError))

    def start(self) -> None:
        """Learns in the background until `close`."""
        self._loop.start()

    async def close(self) -> None:
        """Ends the loop that learns. Idempotent."""
        await self._loop.close()

    async def _run(self) -> None:
        while True:
            await self.look()
            self._loop.report_progress()
            await asyncio.sleep(INTERVAL)

    # For runs -------------------------------------------------------------------------------------------------------

    def weight(self, tenant: str, role: str, instance_id: str = "") -> float:
        """Returns the weight of a role, or of one instance of it, as this process knows it."""
        subject = Subject("instance", role, instance_id) if instance_id else Subject("role", role)
        return self._in_use.get(tenant, NOTHING).weights.get(subject, NEUTRAL)

    def choices(
        self, tenant: str, run_id: str, variants: Mapping[str, Sequence[str]], roles: Sequence[str]
    ) -> dict[str, Any]:
        """Returns the choices for a new run, as `choices_of` does."""
        version = self._in_use.get(tenant, NOTHING)
        return choices_of(run_id, version.number, version.weights, variants, roles)

    async def refresh(self) -> None:
        """Reads the weights that other replicas, or people, have stored. Raises the errors of the journal."""
        held: set[str] = set()
        for tenant in await self._journal.learned_tenants():
            try:
                newest = await self._newest(tenant)
            except DataLoss as error:
                if tenant not in self._held:
                    _log.error("the learned weights of tenant %s cannot be read: %s", tenant, error)
                held.add(tenant)
                continue
            self._in_use[tenant] = ver.in_use(newest)
            if ver.proposed(newest) is not None:
                held.add(tenant)
        if self._held - held:
            self._since = None  # outcomes that have waited are earlier
        self._held = held

    # Outcomes -------------------------------------------------------------------------------------------------------

    async def look(self) -> int:
        """Learns from the outcomes that no evidence holds, up to BATCH; returns their number. Outcomes of a tenant with
        a proposed version wait. Raises the errors of the journal."""
        await self.refresh()
        since = self._now() - WINDOW if self._since is None else self._since
        rows = await self._journal.unlearned(since, BATCH, self._held)
        tenants: dict[str, list[UnlearnedRow]] = {}
        for row in rows:
            tenants.setdefault(row.tenant, []).append(row)
        learned, reached = 0, [max((row.time for row in rows), default=self._now())]
        for tenant, outcomes in tenants.items():
            if await self._learn(tenant, outcomes):
                learned += len(outcomes)
            else:
                reached.append(min(row.time for row in outcomes))
        for rated in (False, True):
            kind = [row.time for row in rows if row.rated == rated]
            if len(kind) >= BATCH:
                reached.append(max(kind))  # there may be more of them
        self._since = max(since, min(reached) - OVERLAP, self._now() - WINDOW)
        return learned

    async def _learn(self, tenant: str, rows: Sequence[UnlearnedRow]) -> bool:
        newest = await self._newest(tenant)
        if ver.proposed(newest) is not None:
            return False
        stored = await self._journal.learned_evidence(tenant)
        outcomes = [outcome for row in rows for outcome in await self._outcomes(row)]
        now = self._now()
        evidence = observed(self._evidence_of(tenant, stored.data), outcomes, now)
        version = ver.learned(newest, evidence, now, self._approve_above)
        row = _row(tenant, version) if version is not None else None
        if not await self._journal.learn(tenant, stored.revision, ver.encode_evidence(evidence), rows, row):
            return False  # another replica was first: the next look sees what is left
        if version is not None:
            self._noted(tenant, version)
        return True

    def _evidence_of(self, tenant: str, data: bytes) -> Mapping[Subject, Any]:
        try:
            return ver.decode_evidence(data)
        except (ValueError, TypeError, IndexError) as error:
            _log.error("the evidence of tenant %s cannot be read, and begins anew: %s", tenant, error)
            return {}

    async def _outcomes(self, row: UnlearnedRow) -> list[Outcome]:
        """Returns the outcomes of a row; a run that cannot be read has none."""
        try:
            if row.rated:
                return of_rating(await self._summary(row.run_id), row.stars)
            run = await load_run(self._journal, row.run_id)
            records = await self._journal.records(row.run_id, limit=MAX_RECORDS)
        except (Unavailable, ResourceExhausted):
            raise  # the journal's error, not the run's
        except ArchonError as error:
            _log.warning("run %s cannot be learned from: %s", row.run_id, error, extra={"run_id": row.run_id})
            return []
        outcomes = of_tasks(run)
        try:
            outcomes += of_records(record_from_journal(data, row.run_id) for _, data in records)
        except (ValueError, DataLoss) as error:
            _log.warning("records of run %s cannot be read: %s", row.run_id, error, extra={"run_id": row.run_id})
        return outcomes

    async def _summary(self, run_id: str) -> run_pb2.Run:
        stored = await self._journal.run(run_id)
        if stored is not None and stored.compacted:
            return from_journal(run_pb2.Run, stored.summary, run_id)
        return run_to_proto(await load_run(self._journal, run_id))

    # Decisions of people --------------------------------------------------------------------------------------------

    async def page(self, tenant: str, before: int, limit: int) -> tuple[list[Version], int]:
        """Returns versions, newest first, below `before` or all if that is 0, and the number of the version in use."""
        rows = await self._journal.learned_versions(tenant, before, limit)
        return [_version(row) for row in rows], ver.in_use(await self._newest(tenant)).number

    async def decide(self, tenant: str, number: int, identity: str, comment: str, *, approve: bool) -> Version:
        """Approves or rejects the proposed version; returns the version that this stores. Raises
        UnknownLearnedVersion, LearnedVersionDecided and the errors of the journal."""
        newest = await self._newest(tenant)
        asked = ver.proposed(newest)
        if asked is None or asked.number != number:
            if not 0 < number <= (newest[0].number if newest else 0):
                raise _unknown(number)
            raise LearnedVersionDecided(
                f"version {number} of the learned weights does not wait for a decision",
                metadata={"version": str(number)},
            )
        version = ver.decided(newest, self._now(), identity, comment, approve=approve)
        return await self._store(tenant, version)

    async def revert(self, tenant: str, number: int, identity: str, comment: str) -> Version:
        """Goes back to a version (0: the neutral weights of the beginning), and rejects one that is proposed; returns
        the version that this stores. Raises UnknownLearnedVersion and the errors of the journal."""
        newest = await self._newest(tenant)
        to = NOTHING
        if number:
            rows = await self._journal.learned_versions(tenant, number + 1, 1)
            if not rows or rows[0].version != number:
                raise _unknown(number)
            to = _version(rows[0])
        return await self._store(tenant, ver.reverted(newest, to, self._now(), identity, comment))

    async def _store(self, tenant: str, version: Version) -> Version:
        """Stores a person's version, and its evidence in place of the evidence since then. Raises LearnedVersionDecided
        if another version was stored in the meantime."""
        evidence = ver.encode_evidence(version.evidence)
        for _ in range(ATTEMPTS):
            revision = (await self._journal.learned_evidence(tenant)).revision
            if await self._journal.learn(tenant, revision, evidence, version=_row(tenant, version)):
                self._noted(tenant, version)
                return version
            if (newest := await self._newest(tenant)) and newest[0].number >= version.number:
                break
        raise LearnedVersionDecided(
            f"another version of the learned weights than {version.number - 1} is the newest now: look again",
            metadata={"version": str(version.number - 1)},
        )

    def _noted(self, tenant: str, version: Version) -> None:
        if version.origin is not ver.Origin.PROPOSED:
            self._in_use[tenant] = version

    async def _newest(self, tenant: str) -> list[Version]:
        return [_version(row) for row in await self._journal.learned_versions(tenant, limit=2)]


def _version(row: LearnedRow) -> Version:
    """Raises DataLoss if the row is damaged."""
    try:
        return ver.decode(row.version, row.time, row.data)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        message = f"version {row.version} of the learned weights cannot be read"
        raise DataLoss(message, metadata={"version": str(row.version)}) from error


def _row(tenant: str, version: Version) -> LearnedRow:
    return LearnedRow(tenant, version.number, version.time, ver.encode(version))


def _unknown(number: int) -> UnknownVersion:
    message = f"there is no version {number} of the learned weights"
    return UnknownVersion(message, metadata={"version": str(number)})
