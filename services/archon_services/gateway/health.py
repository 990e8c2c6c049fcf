"""The room of health: answers probes of the supervisor and of Kubernetes, without credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from archon.background import monitor
from archon_services.gateway.room import Gateway


@asynccontextmanager
async def health_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/healthz`: 200 while the gateway serves, 503 while one of its background loops keeps failing. It says
    nothing about the services of the mesh, which have probes of their own."""

    async def health(request: Request) -> Response:
        failing = bool(monitor.failing)
        return JSONResponse({"status": "NOT_SERVING" if failing else "SERVING"}, 503 if failing else 200)

    yield [Route("/healthz", health, methods=["GET"])]
