"""The room of share links: `GET /shared/LINK` has the run, `GET /shared/LINK/events` its events. `/share-links` makes
and lists links, `DELETE /shared/LINK` revokes one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from google.protobuf import json_format
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.context import CallContext, serving
from archon.errors import InvalidArgument, LinkRefused
from archon.security.authenticator import own_key_file
from archon_services.common.sealing import Sealer
from archon_services.gateway.events.frames import resume_after
from archon_services.gateway.events.run_events import RunEvents
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.own_values import OwnValues
from archon_services.gateway.room import Gateway
from archon_services.gateway.shares.links import ShareLinks
from archon_services.gateway.shares.made import MAX_SECONDS, MIN_SECONDS, MadeLink, MadeLinks
from archon_services.gateway.watches.runs import SERVICE

SECONDS = 10.0
"""The time of a call to the orchestrator."""

SHARE: Final = f"/{SERVICE}/SubmitRun"
"""The RPC whose row of the policy says who may share runs."""


class SharedRun:
    """Answers with a run as it is now. The gateway reads it on its own behalf, in the tenant of the link."""

    def __init__(self, gateway: Gateway, links: ShareLinks) -> None:
        self._gateway, self._links = gateway, links
        make: Callable[[Any], Any] = orchestrator_service_pb2_grpc.OrchestratorServiceStub
        self._stub = make(gateway.upstream.own(SERVICE))

    async def read(self, request: Request) -> Response:
        """Answers a request for the run of a link; with `?view=basic` without its tasks."""
        view = pb.RUN_VIEW_BASIC if request.query_params.get("view") == "basic" else pb.RUN_VIEW_FULL
        visitor, run_id = await self._links.open(request.path_params["link"])
        self._gateway.visitors.admit(visitor)
        with serving(CallContext(tenant=visitor.caller.tenant)):
            answer = await self._stub.GetRun(pb.GetRunRequest(run_id=run_id, view=view), timeout=SECONDS)
        return Response(json_format.MessageToJson(answer, indent=None), media_type="application/json")


class SharedEvents:
    """Streams the events of the run of a link."""

    def __init__(self, gateway: Gateway, links: ShareLinks, run_events: RunEvents) -> None:
        self._gateway, self._links, self._run_events = gateway, links, run_events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        after = resume_after(request.headers, request.query_params)
        link = request.path_params["link"]
        visitor, run_id = await self._links.open(link)
        self._gateway.visitors.admit(visitor)
        with self._links.watched(link, visitor, run_id):
            await self._run_events.stream(request, send, visitor, run_id, after)


class NewLink(BaseModel):
    """The body of a request for a link: the run, and for how many seconds it is valid."""

    model_config = ConfigDict(extra="forbid")

    runId: str = Field(min_length=1, max_length=64)
    seconds: float = Field(default=7 * 86_400.0, ge=MIN_SECONDS, le=MAX_SECONDS)


class Sharing:
    """Makes, lists and revokes links for callers that the policy lets submit runs, for runs of their own tenant."""

    def __init__(self, gateway: Gateway, made: MadeLinks) -> None:
        self._visitors, self._made = gateway.visitors, made
        make: Callable[[Any], Any] = orchestrator_service_pb2_grpc.OrchestratorServiceStub
        self._stub = make(gateway.upstream.forwarding(SERVICE))

    async def make(self, request: Request) -> Response:
        """Makes a link. Raises InvalidArgument, UnknownRun, ResourceExhausted and Unavailable."""
        visitor = self._visitors.of(request.headers, SHARE)
        try:
            wanted = NewLink.model_validate_json(await request.body())
        except ValidationError as error:
            [fault, *_] = error.errors(include_url=False, include_input=False)
            raise InvalidArgument(f"{'.'.join(map(str, fault['loc'])) or 'the body'}: {fault['msg']}") from None
        await self._check_run(visitor, wanted.runId)
        caller = visitor.caller
        link = await self._made.make(caller.tenant, wanted.runId, caller.identity, wanted.seconds)
        return JSONResponse(_document(link), 201)

    async def list(self, request: Request) -> Response:
        """Lists the links of a run that were made here and are valid, the newest first."""
        visitor = self._visitors.of(request.headers, SHARE)
        run_id = request.query_params.get("run", "")
        await self._check_run(visitor, run_id)
        links = await self._made.list(visitor.caller.tenant, run_id)
        return JSONResponse({"links": [_document(link) for link in links]})

    async def revoke(self, request: Request) -> Response:
        """Revokes a link that was made here. Raises LinkRefused if there is no such link in the caller's tenant."""
        visitor = self._visitors.of(request.headers, SHARE)
        link = await self._made.open(request.path_params["link"])
        if link.tenant != visitor.caller.tenant:
            raise LinkRefused("this link has expired, was revoked, or never existed")
        await self._made.revoke(link)
        return JSONResponse({})

    async def _check_run(self, visitor: Visitor, run_id: str) -> None:
        """Raises UnknownRun if the visitor's tenant has no such run."""
        await self._stub.GetRun(pb.GetRunRequest(run_id=run_id), metadata=visitor.metadata, timeout=SECONDS)


def _document(link: MadeLink) -> dict[str, Any]:
    return {
        "path": f"/shared/{link.token}",
        "by": link.by,
        "created": int(link.created),
        "expires": int(link.until),
    }


@asynccontextmanager
async def shares_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/shared/LINK`, `/shared/LINK/events` and `/share-links`."""
    async with OwnValues.of(gateway) as values:
        made = MadeLinks(values, Sealer.from_file(Path(gateway.settings.session_key)))
        links = ShareLinks(own_key_file(), made)
        events: Any = SharedEvents(gateway, links, RunEvents(gateway, links.check))
        sharing = Sharing(gateway, made)
        loop = made.loop()
        loop.start()
        try:
            yield [
                Route("/shared/{link}", SharedRun(gateway, links).read, methods=["GET"]),
                Route("/shared/{link}", sharing.revoke, methods=["DELETE"]),
                Route("/shared/{link}/events", events, methods=["GET"]),
                Route("/share-links", sharing.list, methods=["GET"]),
                Route("/share-links", sharing.make, methods=["POST"]),
            ]
        finally:
            await loop.close()
