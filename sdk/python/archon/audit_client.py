"""Client for verification: the history of a run as its journal holds it, and the audit log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Final

from archon.api.audit.v1 import audit_service_pb2 as pb
from archon.api.audit.v1 import audit_service_pb2_grpc
from archon.api.orchestrator.v1 import orchestrator_service_pb2, orchestrator_service_pb2_grpc
from archon.channel import Option, connect
from archon.errors import DataLoss
from archon.history import AuditEntry, AuditLink, RecordedStep, RunHistory
from archon.pages import LARGEST, listed, pages
from archon.security.certificates import CertificateFolder
from archon.security.credentials import Credentials
from archon.wire import set_seconds, to_seconds

__all__ = ["AuditClient"]

CALL_TIMEOUT: Final = 10.0


class AuditClient:
    """A connection to an orchestrator at `host:port`, as `archon.client.Client` has one. Close it, or use it as an
    async context manager. It returns histories as they are: `archon.history` verifies them."""

    def __init__(
        self,
        target: str,
        *,
        options: Sequence[Option] | None = None,
        credentials: Credentials | None = None,
        certificate: CertificateFolder | None = None,
    ) -> None:
        self._channel = connect(target, options, credentials=credentials, certificate=certificate)
        self._runs = orchestrator_service_pb2_grpc.OrchestratorServiceStub(self._channel)
        self._audit = audit_service_pb2_grpc.AuditServiceStub(self._channel)

    async def __aenter__(self) -> AuditClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Idempotent."""
        await self._channel.close()

    async def history(self, run_id: str) -> RunHistory:
        """Returns the steps of a run. Raises UnknownRun, RunExpired, and DataLoss if pages do not follow each other."""
        steps: list[RecordedStep] = []
        last_seq, ended = 0, False
        async for page in self.history_pages(run_id):
            steps += page.steps
            last_seq, ended = page.last_seq, page.ended
        return RunHistory(run_id, last_seq, ended, tuple(steps))

    async def history_pages(self, run_id: str) -> AsyncIterator[RunHistory]:
        """Yields the steps of a run in order, some at a time, each time with its last event and whether it has ended by
        then. Raises as `history` does."""
        request = orchestrator_service_pb2.ListRunStepsRequest(run_id=run_id)
        async for page in pages(self._runs.ListRunSteps, request, timeout=CALL_TIMEOUT):
            if request.page_token and not page.steps:
                raise DataLoss(f"run {run_id}: a page of its steps is empty", metadata={"run_id": run_id})
            steps = tuple(
                RecordedStep(step.base, step.last_seq, step.data, step.inputs, step.link, step.seal)
                for step in page.steps
            )
            yield RunHistory(run_id, page.last_seq, page.ended, steps)

    async def entries(
        self,
        *,
        start: float = 0.0,
        end: float = 0.0,
        identity: str = "",
        action: str = "",
        run_id: str = "",
        limit: int = 1_000,
    ) -> list[AuditEntry]:
        """Returns entries of the caller's tenant, newest first, at most `limit`: from `start` until before `end` (wall
        seconds; 0: no limit), and of an identity, an action and a run."""
        request = pb.ListEntriesRequest(identity=identity, action=action, run_id=run_id)
        if start:
            set_seconds(request.start_time, start)
        if end:
            set_seconds(request.end_time, end)
        return await listed(self._audit.ListEntries, request, "entries", _entry, timeout=CALL_TIMEOUT, limit=limit)

    async def links(self) -> AsyncIterator[AuditLink]:
        """Yields the links of all chains, in the order of chain and number."""
        request = pb.ListLinksRequest(page_size=LARGEST)
        async for page in pages(self._audit.ListLinks, request, timeout=CALL_TIMEOUT):
            for link in page.links:
                yield AuditLink(link.chain, link.number, link.digest, link.link, link.seal, link.data)


def _entry(entry: pb.Entry) -> AuditEntry:
    details = json.loads(entry.details_json) if entry.details_json else {}
    return AuditEntry(
        entry.tenant,
        to_seconds(entry.time),
        entry.identity,
        entry.action,
        entry.run_id,
        entry.target,
        tuple(entry.actors),
        details,
    )
