"""The room of logins: one-time links, the OpenID provider, who is logged in, and the end of a session."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from archon.errors import ArchonError, LinkRefused, TokenMissing, Unavailable
from archon.security.openid.provider import ASK_AGAIN
from archon.security.openid.settings import own_settings
from archon_services.common.sealing import Sealer
from archon_services.gateway.descriptors import all_rpcs
from archon_services.gateway.front.addresses import Addresses, local_path
from archon_services.gateway.identity.logins import redeem
from archon_services.gateway.identity.sessions import Session
from archon_services.gateway.login.openid import SECONDS, OpenIdLogin
from archon_services.gateway.room import Gateway

WHO: Final = "/archon.api.registry.v1.RegistryService/GetGraph"
"""The RPC that every caller with valid credentials may call."""

CALLBACK: Final = "/login/callback"
_SEE_OTHER: Final = 303

KEY_SECONDS: Final = ASK_AGAIN + 5.0
"""Seconds for which a login waits for a key of the provider, whose keys are fetched once in ASK_AGAIN seconds."""

KEY_POLL: Final = 0.1
"""Seconds between two looks for it."""

MAX_PENDING: Final = 8
MAX_PENDING_BYTES: Final = 8_192
"""Logins in progress of one browser, and characters of them, which are cookies that it sends with each request."""


class Logins:
    """The handlers of the room. `openid` is None without an OpenID provider."""

    def __init__(self, gateway: Gateway, openid: OpenIdLogin | None) -> None:
        self._gateway, self._openid = gateway, openid
        self._sessions = gateway.visitors.sessions
        self._addresses = Addresses(gateway.settings)
        self._pending = f"{self._sessions.name}_login_"

    async def login(self, request: Request) -> Response:
        """Sends a browser to the provider; without one, says how else to log in."""
        if self._openid is None:
            raise TokenMissing("log in with the link that `archon up` or `archon token --browser` prints")
        next_path = local_path(request.query_params.get("next", "/"))
        url, state, sealed = await self._openid.begin(self._callback(request), next_path)
        response = RedirectResponse(url, _SEE_OTHER)
        for name in self._abandoned(request, len(sealed)):
            self._set(response, request, name, "", 0)
        self._set(response, request, self._cookie_of(state), sealed, SECONDS)
        return response

    async def callback(self, request: Request) -> Response:
        """Ends a login at the provider. A browser that comes back here once more, such as by its button, and has a
        session goes on with that."""
        if self._openid is None:
            raise LinkRefused("the HTTP gateway has no OpenID provider")
        name = self._cookie_of(request.query_params.get("state", ""))
        sealed = request.cookies.get(name, "")
        if not sealed and self._sessions.read(request.headers) is not None:
            return RedirectResponse("/", _SEE_OTHER)
        token, next_path = await self._openid.end(request.query_params, sealed, self._callback(request))
        await self._key_known(token)
        response = self._logged_in(request, token, next_path)
        self._set(response, request, name, "", 0)
        return response

    async def once(self, request: Request) -> Response:
        """Logs a browser in by a one-time link. A look ahead of the browser does not use the link up."""
        if request.method != "GET" or "prefetch" in request.headers.get("sec-purpose", ""):
            return Response(status_code=204)
        token = redeem(Path(self._gateway.settings.login_folder), request.query_params.get("code", ""))
        return self._logged_in(request, token, request.query_params.get("next", "/"))

    async def logout(self, request: Request) -> Response:
        """Ends the session of a browser, and the streams of its other tabs at this replica. A token that was copied is
        valid until it ends or is revoked."""
        self._gateway.visitors.leave(request.headers)
        response = Response(status_code=204)
        self._sessions.forget(response, https=_by_https(request))
        return response

    async def who(self, request: Request) -> Response:
        """Says who is logged in, or whose token it is, and which RPCs the policy lets them call."""
        caller = self._gateway.visitors.of(request.headers, WHO).caller
        principal = caller.principal
        content = {"identity": caller.identity, "tenant": caller.tenant, "kind": "", "expires": 0}
        if principal is not None:
            content |= {"kind": principal.kind.value, "expires": int(principal.expires) if principal.token_id else 0}
        content["rpcs"] = [rpc.path for rpc in all_rpcs() if self._gateway.visitors.may(caller, rpc.path)]
        return JSONResponse(content)

    async def _key_known(self, token: str) -> None:
        """Waits until the key of a token is known: the provider may have it since a moment ago, and its code counts
        once. Returns after KEY_SECONDS in any case."""
        loop = asyncio.get_running_loop()
        until = loop.time() + KEY_SECONDS
        while loop.time() < until:
            try:
                self._gateway.visitors.of({"authorization": f"Bearer {token}"}, WHO)
            except Unavailable:
                await asyncio.sleep(KEY_POLL)
            except ArchonError:
                return
            else:
                return

    def _logged_in(self, request: Request, token: str, next_path: str) -> Response:
        visitor = self._gateway.visitors.of({"authorization": f"Bearer {token}"}, WHO)
        response = RedirectResponse(local_path(next_path), _SEE_OTHER)
        principal = visitor.caller.principal
        if principal is not None:
            session = Session(token, principal.expires)
            self._gateway.visitors.enter(session)
            self._sessions.write(response, session, https=_by_https(request))
        return response

    def _cookie_of(self, state: str) -> str:
        """Returns the name of the cookie of a login: each tab of a browser may have one in progress."""
        return f"{self._pending}{hashlib.sha256(state.encode()).hexdigest()[:12]}"

    def _abandoned(self, request: Request, size: int) -> list[str]:
        """Returns the cookies of the oldest logins in progress, which leave no room for another one of a size."""
        pending = {name: len(value) for name, value in request.cookies.items() if name.startswith(self._pending)}
        abandoned: list[str] = []
        for name in list(pending):
            if len(pending) < MAX_PENDING and sum(pending.values()) + size <= MAX_PENDING_BYTES:
                break
            abandoned.append(name)
            del pending[name]
        return abandoned

    def _set(self, response: Response, request: Request, name: str, value: str, seconds: int) -> None:
        secure = self._addresses.secure or _by_https(request)
        response.set_cookie(name, value, seconds, path="/", secure=secure, httponly=True, samesite="lax")

    def _callback(self, request: Request) -> str:
        return self._addresses.own_url(request.headers["host"], request.url.scheme) + CALLBACK


def _by_https(request: Request) -> bool:
    """Returns whether a browser has sent a request by https, to this gateway or to a trusted proxy."""
    return request.url.scheme == "https"


@asynccontextmanager
async def login_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/login`, `/login/once`, `/login/callback`, `/logout` and `/session`."""
    settings = own_settings()
    openid = None
    if settings is not None:
        sealer = Sealer.from_file(Path(gateway.settings.session_key))
        openid = OpenIdLogin(settings, sealer, gateway.settings.oidc_client_secret)
    logins = Logins(gateway, openid)
    yield [
        Route("/login", logins.login, methods=["GET"]),
        Route("/login/once", logins.once, methods=["GET"]),
        Route(CALLBACK, logins.callback, methods=["GET"]),
        Route("/logout", logins.logout, methods=["POST"]),
        Route("/session", logins.who, methods=["GET"]),
    ]
