"""The AuditService, over the log of a service."""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

from archon import context as call
from archon.api.audit.v1 import audit_service_pb2 as pb
from archon.api.audit.v1 import audit_service_pb2_grpc
from archon.errors import DataLoss
from archon.history import AuditEntry, AuditLink
from archon.wire import set_seconds, to_seconds
from archon_services.common.audit_entry import AuditFilter
from archon_services.common.paging import make_token, page_size, read_token

AUDIT_SERVICE: Final = "archon.api.audit.v1.AuditService"


class AuditReader(Protocol):
    """Reads a log. Raises the errors of its store."""

    async def audit_entries(self, wanted: AuditFilter, below: int, limit: int) -> list[tuple[int, bytes]]:
        """Returns (row id, data) of entries, newest first; `below` is the last row id of the previous page, 0 for the
        first page."""
        ...

    async def audit_links(self, after: tuple[str, int], limit: int) -> list[AuditLink]:
        """Returns linked entries of all tenants in the order of (chain, number), after this place."""
        ...


class AuditServicer(audit_service_pb2_grpc.AuditServiceServicer):
    """Serves a log to readers of each tenant."""

    def __init__(self, log: AuditReader) -> None:
        self._log = log

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
        rows = await self._log.audit_entries(wanted, below, size + 1)
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
        links = await self._log.audit_links(after, size + 1)
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


def entry_to_proto(entry: AuditEntry) -> pb.Entry:
    """Returns an entry for its readers."""
    out = pb.Entry(
        tenant=entry.tenant,
        identity=entry.identity,
        actors=entry.actors,
        action=entry.action,
        run_id=entry.run_id,
        target=entry.target,
        details_json=json.dumps(entry.details) if entry.details else "",
    )
    set_seconds(out.time, entry.time)
    return out


def link_to_proto(link: AuditLink, *, readable: bool) -> pb.Link:
    """Returns a link; without its entry unless it is `readable`."""
    return pb.Link(
        chain=link.chain,
        number=link.number,
        digest=link.digest,
        link=link.link,
        seal=link.seal,
        data=link.data if readable else b"",
    )
