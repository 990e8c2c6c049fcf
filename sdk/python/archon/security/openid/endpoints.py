"""The addresses of an OpenID provider, as it publishes them (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from archon.errors import InvalidArgument, Unavailable
from archon.loopback import is_loopback
from archon.security.openid.http import SECONDS, checked_url, request_json

_PATH: Final = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The issuer as the provider writes it, and URLs, empty if it has none. `scopes` are those that it names."""

    issuer: str
    jwks: str
    token: str = ""
    device_authorization: str = ""
    revocation: str = ""
    scopes: frozenset[str] = frozenset()
    authorization: str = ""


async def discover(issuer: str, *, seconds: float = SECONDS) -> Endpoints:
    """Asks a provider for its addresses. Raises Unavailable if it gives none that can be used, InvalidArgument if the
    issuer is no URL that may be asked."""
    url = issuer.rstrip("/") + _PATH
    status, content = await request_json(url, seconds=seconds)
    if status != 200 or not content:
        raise Unavailable(f"{url} answered {status}: is {issuer} the issuer of an OpenID provider?")
    return parsed(content, issuer)


def parsed(content: dict[str, Any], issuer: str) -> Endpoints:
    """Returns the addresses in a document of a provider. Raises Unavailable if another issuer is named, or
    an address may not be used."""
    named = content.get("issuer")
    if not isinstance(named, str) or named.rstrip("/") != issuer.rstrip("/"):
        raise Unavailable(f"the provider at {issuer} says that its issuer is {str(named)[:200]!r}")
    scopes = content.get("scopes_supported")
    return Endpoints(
        named,
        _url(content, "jwks_uri", issuer),
        _url(content, "token_endpoint", issuer),
        _url(content, "device_authorization_endpoint", issuer),
        _url(content, "revocation_endpoint", issuer),
        frozenset(each for each in scopes if isinstance(each, str)) if isinstance(scopes, list) else frozenset(),
        _url(content, "authorization_endpoint", issuer),
    )


def _url(content: dict[str, Any], name: str, issuer: str) -> str:
    url = content.get(name, "")
    if not isinstance(url, str):
        raise Unavailable(f"the {name} of {issuer} is no URL")
    if url:
        try:
            checked_url(url)
        except InvalidArgument as error:
            raise Unavailable(f"the {name} of {issuer}: {error}") from None
        if is_loopback(urlsplit(url).hostname or "") and not is_loopback(urlsplit(issuer).hostname or ""):
            raise Unavailable(f"the {name} of {issuer} is an address of this machine")
    return url
