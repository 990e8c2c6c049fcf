"""The room of hooks: `POST /hooks/NAME`, and `POST /hooks/TENANT/NAME` for other tenants than `default`.

A delivery has no token: its signature counts, which the orchestrator verifies. The status says whether it is worth
while to send it again: a 429 and a 503, with Retry-After, are.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from archon import status
from archon.api.orchestrator.v1 import hook_service_pb2 as pb
from archon.api.orchestrator.v1 import hook_service_pb2_grpc
from archon.context import CallContext, serving
from archon.errors import (
    ArchonError,
    DeliveryUnverified,
    MessageTooLarge,
    ResourceExhausted,
    Unauthenticated,
)
from archon.principal import DEFAULT_TENANT
from archon_services.common.rates import Rates
from archon_services.gateway.failures import failure_response
from archon_services.gateway.front.addresses import Addresses
from archon_services.gateway.front.guard import HOOKS
from archon_services.gateway.hooks.request import ContentRefused, check_content, signed_headers
from archon_services.gateway.room import Gateway

SERVICE: Final = "archon.api.orchestrator.v1.HookService"

SECONDS: Final = 9.0
"""The time of a delivery: senders wait for 3 to 30 s."""

RETRY_AFTER: Final = 10.0
"""Seconds after which a delivery is sent again, if the failure does not say."""

_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FINAL: Final = frozenset({"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "ALREADY_EXISTS"})
_STATES: Final = {
    pb.DELIVERY_STATE_ACCEPTED: "accepted",
    pb.DELIVERY_STATE_REPEATED: "repeated",
    pb.DELIVERY_STATE_IGNORED: "ignored",
}


class Deliveries:
    """Passes deliveries on to the orchestrator, on behalf of the gateway and in the tenant of the path."""

    def __init__(self, gateway: Gateway) -> None:
        make: Callable[[Any], Any] = hook_service_pb2_grpc.HookServiceStub
        self._stub = make(gateway.upstream.own(SERVICE))
        self._addresses = Addresses(gateway.settings)
        self._rates = Rates(gateway.settings.requests_per_second, subject="deliveries a second of one address")

    async def take(self, request: Request) -> Response:
        """Answers a delivery."""
        try:
            return self._answer(request, await self._deliver(request))
        except Exception as raised:  # noqa: BLE001 - senders get the statuses of webhooks
            return _failed(status.as_error(raised))

    async def _deliver(self, request: Request) -> pb.DeliverResponse:
        # Before anything is looked up: this limit holds senders without a secret, and tells them nothing.
        self._rates.admit(request.client.host if request.client is not None else "")
        body = await request.body()
        check_content(request.headers, body)
        headers = [pb.DeliveryHeader(name=name, value=value) for name, value in signed_headers(request.headers)]
        tenant = str(request.path_params.get("tenant", DEFAULT_TENANT))
        if not _TENANT.fullmatch(tenant):
            raise DeliveryUnverified("there is no such hook, or the signature of the delivery does not match")
        message = pb.DeliverRequest(name=request.path_params["name"][:200], body=body, headers=headers)
        with serving(CallContext(tenant=tenant)):
            response: pb.DeliverResponse = await self._stub.Deliver(message, timeout=SECONDS)
        return response

    def _answer(self, request: Request, delivered: pb.DeliverResponse) -> Response:
        if delivered.state == pb.DELIVERY_STATE_CHALLENGED:
            return PlainTextResponse(delivered.challenge)
        content = {"state": _STATES.get(delivered.state, ""), "delivery": delivered.delivery_id}
        if not delivered.run_id:
            return JSONResponse(content)
        url = self._addresses.own_url(request.headers.get("host", ""), request.url.scheme)
        watch = f"{url}/runs/{delivered.run_id}"
        code = HTTPStatus.ACCEPTED if delivered.state == pb.DELIVERY_STATE_ACCEPTED else HTTPStatus.OK
        return JSONResponse({**content, "run": delivered.run_id, "watch": watch}, code, {"location": watch})


def _failed(error: ArchonError) -> Response:
    """Returns the response to a delivery that has failed. Failures that a later try may not meet are 503: a missing
    role, a store that cannot be reached, a credential of the gateway."""
    is_own = isinstance(error, Unauthenticated) and not isinstance(error, DeliveryUnverified)
    response = failure_response(error)
    if isinstance(error, ContentRefused):
        response.status_code = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    elif isinstance(error, MessageTooLarge):
        response.status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    elif is_own or not (error.code in _FINAL or isinstance(error, ResourceExhausted)):
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    if response.status_code in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        response.headers.setdefault("retry-after", f"{RETRY_AFTER:.0f}")
    return response


@asynccontextmanager
async def hooks_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves hooks for the duration of the block, and yields their routes."""
    deliveries = Deliveries(gateway)
    yield [
        Route(f"{HOOKS}{{name}}", deliveries.take, methods=["POST"]),
        Route(f"{HOOKS}{{tenant}}/{{name}}", deliveries.take, methods=["POST"]),
    ]
