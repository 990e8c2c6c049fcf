"""The AuditService of the orchestrator."""

from __future__ import annotations

from typing import Any

from archon import context as call
from archon.api.audit.v1 import audit_service_pb2 as pb
from archon.api.audit.v1 import audit_service_pb2_grpc
from archon.errors import DataLoss
from archon.history import AuditEntry
from archon.wire import to_seconds
from archon_services.common.paging import make_token, page_size, read_token
from archon_services.orchestrator.convert.audit import entry_to_proto, link_to_proto
from archon_services.orchestrator.journal import AuditFilter, Journal

AUDIT_SERVICE = "archon.api.audit.v1.AuditService"


class AuditServicer(audit_service_pb2_grpc.AuditServiceServicer):
    """Reads the log of the journal, which all replicas of the orchestrator share."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def ListEntries(self, request: pb.ListEntriesRequest, context: Any) -> pb.ListEntriesResponse:
        wanted = AuditFilter(
            call.current().tenant,
            to_seconds(request.start_time) if request.HasField("start_time") else 0.0,
            to_seconds(request.end_time) if request.HasField("end_time") else 0.0,
            request.identity,
            request.action,
            request.run_id,
        )
        filters = (wanted.after, wanted.before, wanted.identity, wanted.action, wanted.run_id)
        below = read_token(request.page_token, "audit", *filters, like=0) or 0
        size = page_size(request.page_size)
        rows = await self._journal.audit_entries(wanted, below, size + 1)
        page = rows[:size]
        out = pb.ListEntriesResponse(entries=[entry_to_proto(_readable(data, wanted)) for _, data in page])
        if len(rows) > size:
            out.next_page_token = make_token(page[-1][0], "audit", *filters)
        return out

    async def ListLinks(self, request: pb.ListLinksRequest, context: Any) -> pb.ListLinksResponse:
        tenant = call.current().tenant
        position = read_token(request.page_token, "links", like=["", 0])
        size = page_size(request.page_size)
        after = (position[0], position[1]) if position else ("", 0)
        links = await self._journal.audit_links(after, size + 1)
        page = links[:size]
        out = pb.ListLinksResponse(
            links=[link_to_proto(link, readable=_tenant_of(link.data) == tenant) for link in page]
        )
        if len(links) > size:
            out.next_page_token = make_token([page[-1].chain, page[-1].number], "links")
        return out


def _readable(data: bytes, wanted: AuditFilter) -> AuditEntry:
    """Returns an entry; one that another program has damaged is shown as such."""
    try:
        return AuditEntry.decode(data)
    except DataLoss:
        return AuditEntry(wanted.tenant, 0.0, "", "unreadable")


def _tenant_of(data: bytes) -> str | None:
    try:
        return AuditEntry.decode(data).tenant if data else None
    except DataLoss:
        return None
