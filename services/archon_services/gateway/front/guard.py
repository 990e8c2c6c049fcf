"""The guard before all rooms: checks a request, reads its body, and answers whatever fails with a typed error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from archon import status
from archon.errors import InvalidArgument, MessageTooLarge
from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.draining import Draining
from archon_services.gateway.failures import failure_response
from archon_services.gateway.front.addresses import Addresses
from archon_services.gateway.front.body import MAX_HELD, HeldBody
from archon_services.gateway.front.event_lines import EVENTS, unbroken
from archon_services.gateway.front.headers import harden, restrained
from archon_services.gateway.front.rejections import RefusalLog
from archon_services.gateway.front.target import with_origin_form

HEALTHY: Final = "/healthz"
READY: Final = "/readyz"
HOOKS: Final = "/hooks/"
"""The path of webhooks, whose senders read the status alone."""

PROBES: Final = frozenset({HEALTHY, READY})
"""Paths of probes, which name the address of a pod in the header Host."""


class Guard:
    """An ASGI application around another. `has_session` says whether headers have the cookie of a session; `seconds` is
    the time in which a body arrives. Once `draining` has begun, each response ends its connection. `cross_origin` lets
    pages of other origins read the responses of an application; the guard's own errors go through it, too."""

    def __init__(
        self,
        application: ASGIApp,
        addresses: Addresses,
        has_session: Callable[[Mapping[str, str]], bool],
        draining: Draining,
        cross_origin: Callable[[ASGIApp], ASGIApp],
        *,
        seconds: float,
    ) -> None:
        self._application, self._cross_origin = cross_origin(application), cross_origin
        self._addresses, self._has_session = addresses, has_session
        self._seconds, self._draining = seconds, draining
        self._refusals = RefusalLog()
        self._budget = ByteBudget(MAX_HELD)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = is_stream = False
        gone = asyncio.Event()
        body = HeldBody(self._budget, self._seconds)
        own_url = ""

        async def hardened(message: Message) -> None:
            nonlocal started, is_stream
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(raw=message["headers"])
                harden(headers, strict=self._addresses.strict)
                restrained(headers, message["status"], own_url)
                is_stream = headers.get("content-type", "").startswith(EVENTS)
                if not body.complete or self._draining.begun:
                    headers["connection"] = "close"  # the rest of the body is not read, or a proxy goes elsewhere
                if message["status"] == HTTPStatus.UNAUTHORIZED:
                    headers.setdefault("www-authenticate", 'Bearer realm="archon"')
                self._refusals.note(scope, message["status"])
                if is_stream and scope["method"] == "HEAD":
                    await send(message)
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
                    gone.set()
            elif gone.is_set():
                return
            elif is_stream and (piece := message.get("body")):
                message["body"] = unbroken(piece)
            await send(message)

        try:
            scope = with_origin_form(scope)
            own_url = f"{scope['scheme']}://{self._check(scope)}"
            await body.read(receive)
            rest = _until(gone) if scope["method"] == "HEAD" else receive
            await self._application(scope, body.replay(rest), hardened)
        except asyncio.CancelledError:
            raise
        except Exception as raised:  # noqa: BLE001 - whatever it is, the client gets a typed error
            if not started:
                error = status.as_error(raised)
                response = failure_response(error)
                if isinstance(error, MessageTooLarge) and scope["path"].startswith(HOOKS):
                    response.status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                await self._cross_origin(response)(scope, receive, hardened)
        finally:
            body.release()

    def _check(self, scope: Mapping[str, Any]) -> str:
        """Returns the header Host. Raises the errors of requests that no room gets."""
        for name, value in scope["headers"]:
            if not name.isascii() or not value.isascii():
                raise InvalidArgument("a header of the request is not ASCII")
        headers = Headers(raw=scope["headers"])
        if len(headers.getlist("authorization")) > 1 or len(headers.getlist("host")) > 1:
            raise InvalidArgument("the request has a header twice that it may have once")
        if "content-length" in headers and "transfer-encoding" in headers:
            raise InvalidArgument("the request gives the size of its body twice")
        if scope["path"] not in PROBES:
            self._addresses.check_host(headers.get("host", ""))
        has_session = self._has_session(headers)
        self._addresses.check_source(scope["method"], headers, has_session=has_session, scheme=scope["scheme"])
        return headers.get("host", "")


def _until(gone: asyncio.Event) -> Receive:
    """Returns a source of messages that has the end of the client once an event is set: a request for the headers of a
    stream (HEAD) ends with them, and its room ends the stream."""

    async def received() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    return received
