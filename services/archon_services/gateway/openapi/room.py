"""The room of the OpenAPI document, which is written from the contract before a release."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from archon_services.gateway.room import Gateway

FILE: Final = Path(__file__).with_name("openapi.json")


@asynccontextmanager
async def openapi_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/openapi.json`, without credentials: it has the contract, and nothing of this mesh."""

    async def document(request: Request) -> Response:
        return Response(FILE.read_bytes(), media_type="application/json")

    yield [Route("/openapi.json", document, methods=["GET"])]
