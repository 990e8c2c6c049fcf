"""The room of share links: `GET /shared/LINK` has the run, `GET /shared/LINK/events` its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.context import CallContext, serving
from archon.security.authenticator import own_key_file
from archon_services.gateway.events.frames import resume_after
from archon_services.gateway.events.run_events import RunEvents
from archon_services.gateway.room import Gateway
from archon_services.gateway.shares.links import ShareLinks
from archon_services.gateway.watches.runs import SERVICE

SECONDS = 10.0
"""The time of a call to the orchestrator."""


class SharedRun:
    """Answers with a run as it is now. The gateway reads it on its own behalf, in the tenant of the link."""

    def __init__(self, gateway: Gateway, links: ShareLinks) -> None:
        self._gateway, self._links = gateway, links
        make: Callable[[Any], Any] = orchestrator_service_pb2_grpc.OrchestratorServiceStub
        self._stub = make(gateway.upstream.own(SERVICE))

    async def read(self, request: Request) -> Response:
        """Answers a request for the run of a link; with `?view=basic` without its tasks."""
        view = pb.RUN_VIEW_BASIC if request.query_params.get("view") == "basic" else pb.RUN_VIEW_FULL
        visitor, run_id = self._links.open(request.path_params["link"])
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
        visitor, run_id = self._links.open(request.path_params["link"])
        self._gateway.visitors.admit(visitor)
        await self._run_events.stream(request, send, visitor, run_id, after)


@asynccontextmanager
async def shares_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/shared/LINK` and `/shared/LINK/events`."""
    links = ShareLinks(own_key_file())
    events: Any = SharedEvents(gateway, links, RunEvents(gateway, links.check))
    yield [
        Route("/shared/{link}", SharedRun(gateway, links).read, methods=["GET"]),
        Route("/shared/{link}/events", events, methods=["GET"]),
    ]
