"""The tokens in an answer of an OpenID provider, and its refusals."""

from __future__ import annotations

import re
from typing import Any, Final

from archon.errors import TokenInvalid
from archon.security.tokens import MAX_TOKEN, claims_of
from archon_services.cli.errors import FAILED, CliError
from archon_services.cli.login.stored import Login

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_SHOWN: Final = 200
"""Characters of a description that are shown."""


def granted(answer: dict[str, Any], issuer: str, client_id: str, earlier: Login | None = None) -> Login:
    """Returns the login of an answer: its ID token, or if a refresh brings none, an access token that services can
    verify. Raises CliError if there is none, or it is of another person than the `earlier` login."""
    for name in ("id_token", "access_token"):
        token = answer.get(name)
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            continue
        claims = _claims(token)
        expires = claims.get("exp")
        if str(claims.get("iss")).rstrip("/") != issuer.rstrip("/") or not isinstance(expires, int | float):
            continue
        if len(token) > MAX_TOKEN:
            raise CliError(
                f"the token of the provider has {len(token):,} characters, and services take {MAX_TOKEN:,}",
                hint="Have the provider put fewer groups into tokens of this client.",
            )
        if earlier is not None and claims.get("sub") != _claims(earlier.token).get("sub"):
            raise CliError("the provider answered with a token of another person")
        refresh = answer.get("refresh_token")
        kept = earlier.refresh_token if earlier is not None else ""
        return Login(
            issuer, client_id, token, float(expires), refresh if isinstance(refresh, str) and refresh else kept
        )
    raise CliError(
        f"the provider {issuer} gave no token that services can verify",
        hint="Allow the scope openid for this client, or access tokens that are JSON Web Tokens.",
    )


def refusal(answer: dict[str, Any], status: int) -> tuple[str, str]:
    """Returns the code of an error of RFC 6749, and a sentence of it that is safe to print."""
    code = answer.get("error")
    name = shown(code) if isinstance(code, str) and code else f"status {status}"
    description = answer.get("error_description")
    return name, f"{name}: {shown(description)}" if isinstance(description, str) and description else name


def shown(text: str) -> str:
    """Returns a text of a provider without control characters, and not too long."""
    return "".join(each if each.isprintable() else " " for each in text[:_SHOWN])


def expired(name: str) -> CliError:
    """Returns the error of a login that has ended."""
    return CliError(
        f"the login of the context {name} has expired: `archon login --context {name}` signs in again", code=FAILED
    )


def _claims(token: str) -> dict[str, Any]:
    try:
        return claims_of(token)
    except TokenInvalid:
        return {}
