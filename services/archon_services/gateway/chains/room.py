"""The room of the audit log's chains: `GET /audit-chains` verifies them as `archon audit verify` does without a key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from archon.api.audit.v1 import audit_service_pb2 as pb
from archon.api.audit.v1 import audit_service_pb2_grpc
from archon.history import AuditLink, ChainReport, verify_log
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.room import Gateway

SERVICE: Final = "archon.api.audit.v1.AuditService"
LIST_LINKS: Final = f"/{SERVICE}/ListLinks"

MAX_LINKS: Final = 50_000
"""Links that are verified: at most some 20 MB, and less than a second. `archon audit verify` has no limit."""

_PAGE: Final = 1_000
_SECONDS: Final = 10.0


class Chains:
    """Verifies the chains of the log for a visitor who may list its links; for one at a time, as it takes memory."""

    def __init__(self, gateway: Gateway) -> None:
        make: Callable[[Any], Any] = audit_service_pb2_grpc.AuditServiceStub
        self._visitors = gateway.visitors
        self._stub = make(gateway.upstream.forwarding(SERVICE))
        self._alone = asyncio.Lock()

    async def verify(self, request: Request) -> Response:
        """Answers with a report on each chain. Raises PermissionDenied, Unavailable."""
        visitor = self._visitors.of(request.headers, LIST_LINKS)
        async with self._alone:
            links, complete = await self._links(visitor)
            reports = await asyncio.to_thread(_verified, links)
        return JSONResponse({"complete": complete, "chains": [_values(report) for report in reports]})

    async def _links(self, visitor: Visitor) -> tuple[list[AuditLink], bool]:
        """Returns the links, and whether these are all."""
        links: list[AuditLink] = []
        listing = pb.ListLinksRequest(page_size=_PAGE)
        while len(links) < MAX_LINKS:
            page = await self._stub.ListLinks(listing, metadata=visitor.metadata, timeout=_SECONDS)
            links += (
                AuditLink(link.chain, link.number, link.digest, link.link, link.seal, link.data) for link in page.links
            )
            listing.page_token = page.next_page_token
            if not page.next_page_token:
                return links, True
        return links, False


def _verified(links: Sequence[AuditLink]) -> list[ChainReport]:
    chains = {chain: list(group) for chain, group in groupby(links, lambda link: link.chain)}
    return verify_log(chains)


def _values(report: ChainReport) -> dict[str, object]:
    fault = None if report.fault is None else {"number": report.fault.number, "reason": report.fault.reason}
    return {
        "chain": report.chain,
        "first": report.first,
        "last": report.last,
        "fault": fault,
    }


@asynccontextmanager
async def chains_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/audit-chains`."""
    yield [Route("/audit-chains", Chains(gateway).verify, methods=["GET"])]
