"""The login of a browser at the OpenID provider: the code flow with PKCE (RFC 6749, RFC 7636, RFC 9207)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final
from urllib.parse import urlencode

from archon.errors import LinkRefused, TokenInvalid, Unavailable
from archon.security.openid.endpoints import Endpoints, discover
from archon.security.openid.http import request_json
from archon.security.openid.settings import OpenIdSettings
from archon.security.tokens import MAX_TOKEN, claims_of
from archon_services.common.sealing import Sealer

SECONDS: Final = 600
"""The time that a person has for the pages of the provider."""

KEPT: Final = 300.0
"""Seconds for which the addresses of the provider are used."""

_PURPOSE: Final = "openid login"


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """The state of a login until the provider sends the browser back: it is in a sealed cookie of the browser."""

    state: str
    nonce: str
    verifier: str
    next: str


class OpenIdLogin:
    """Logins at one provider. `secret` is the client's, empty for a public one."""

    def __init__(self, settings: OpenIdSettings, sealer: Sealer, secret: str = "") -> None:
        self._settings, self._sealer, self._secret = settings, sealer, secret
        self._client_id = sorted(settings.audiences)[0]
        self._endpoints: Endpoints | None = None
        self._asked = 0.0

    async def begin(self, redirect_uri: str, next_path: str) -> tuple[str, str, str]:
        """Returns the address of the provider's page, the state of the login, and the sealed cookie for the way back.
        Raises Unavailable if the provider cannot be asked."""
        endpoints = await self._known()
        pending = PendingLogin(
            secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), next_path
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(pending.verifier.encode()).digest()).rstrip(b"=").decode()
        wanted = ("openid", "profile", "email", "groups")
        scopes = [each for each in wanted if each == "openid" or each in endpoints.scopes]
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._client_id,
                "redirect_uri": redirect_uri,
                "scope": " ".join(scopes),
                "state": pending.state,
                "nonce": pending.nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        separator = "&" if "?" in endpoints.authorization else "?"
        sealed = self._sealer.seal(_PURPOSE, json.dumps(asdict(pending)))
        return f"{endpoints.authorization}{separator}{query}", pending.state, sealed

    async def end(self, query: Mapping[str, str], sealed: str, redirect_uri: str) -> tuple[str, str]:
        """Returns the ID token of a person who comes back from the provider, not verified yet, and the path to go to.
        Raises LinkRefused if this browser has begun no such login, TokenInvalid if the provider gives no token, and
        Unavailable if it cannot be asked."""
        text = self._sealer.open(_PURPOSE, sealed, seconds=SECONDS)
        pending = PendingLogin(**json.loads(text)) if text is not None else None
        if pending is None or not hmac.compare_digest(pending.state.encode(), query.get("state", "").encode()):
            raise LinkRefused("this browser has begun no such login, or too long ago: log in again")
        endpoints = await self._known()
        if query.get("iss", endpoints.issuer) != endpoints.issuer:
            raise TokenInvalid("the answer is of another OpenID provider")
        if "code" not in query:
            raise TokenInvalid(f"the OpenID provider has refused the login: {_shown(query.get('error', 'no code'))}")
        form = {
            "grant_type": "authorization_code",
            "code": query["code"],
            "redirect_uri": redirect_uri,
            "client_id": self._client_id,
            "code_verifier": pending.verifier,
        }
        if self._secret:
            form["client_secret"] = self._secret
        status, answer = await request_json(endpoints.token, form)
        token = answer.get("id_token")
        if status != 200 or not isinstance(token, str) or len(token) > MAX_TOKEN:
            raise TokenInvalid(f"the OpenID provider gave no ID token: {_shown(answer.get('error', status))}")
        if claims_of(token).get("nonce") != pending.nonce:
            raise TokenInvalid("the ID token is of another login")
        return token, pending.next

    async def _known(self) -> Endpoints:
        if self._endpoints is None or time.monotonic() - self._asked > KEPT:
            endpoints = await discover(self._settings.issuer)
            if not endpoints.authorization or not endpoints.token:
                raise Unavailable(f"the OpenID provider {self._settings.issuer} has no login for browsers")
            self._endpoints, self._asked = endpoints, time.monotonic()
        return self._endpoints


def _shown(text: object) -> str:
    return "".join(each if each.isprintable() else " " for each in str(text)[:200])
