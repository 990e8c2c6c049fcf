"""Tokens of a mesh: JSON Web Tokens (RFC 7519) with an Ed25519 signature (EdDSA, RFC 8037).

Claims: `iss` is the id of the mesh, `sub` the name of the caller, `kind` its kind, `tenant`, `roles` of an agent, `aud`
the servers that accept it, `iat`, `exp`, and `jti`, by which it can be revoked.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from typing import TYPE_CHECKING, Any, Final, Literal

from archon.errors import TokenExpired, TokenInvalid, TokenRevoked
from archon.principal import DEFAULT_TENANT, TENANT, Kind, Principal

if TYPE_CHECKING:
    from archon.security.keys import KeySet, SigningKey

Audience = Literal["services", "agents", "shares"]
"""The servers that accept a token. An agent that others registered gets no token that a service would accept. `shares`
are links of the HTTP gateway, which no RPC accepts."""

MAX_TOKEN: Final = 8_192
"""Characters of a token."""

_ALGORITHM: Final = "EdDSA"
_REQUIRED: Final = ["iss", "sub", "aud", "exp", "iat", "jti"]


def sign(key: SigningKey, principal: Principal, audience: Audience, *, now: float) -> str:
    """Returns a token for a caller, which is valid from `now` (wall seconds) until `principal.expires`."""
    import jwt

    claims: dict[str, object] = {
        "iss": key.issuer,
        "sub": principal.name,
        "kind": principal.kind.value,
        "tenant": principal.tenant,
        "aud": audience,
        "iat": int(now),
        "exp": int(principal.expires),
        "jti": principal.token_id or secrets.token_urlsafe(9),
    }
    if principal.roles:
        claims["roles"] = sorted(principal.roles)
    return jwt.encode(claims, key.private, algorithm=_ALGORITHM, headers={"kid": key.key_id})


def verify(token: str, keys: KeySet, audience: Audience) -> Principal:
    """Returns the caller of a token. Raises TokenInvalid, TokenExpired and TokenRevoked."""
    import jwt

    if len(token) > MAX_TOKEN:
        raise TokenInvalid(f"the token has more than {MAX_TOKEN} characters")
    try:
        key_id = str(jwt.get_unverified_header(token).get("kid", ""))
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise TokenInvalid("the token is not a JSON Web Token") from None
    key = keys.key(key_id)
    if key is None:
        raise TokenInvalid(f"the token was signed by another mesh than {keys.issuer}, or with an earlier key of it")
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            audience=audience,
            issuer=keys.issuer,
            options={"require": _REQUIRED, "verify_iat": False},
        )
    except jwt.ExpiredSignatureError:
        raise TokenExpired("the token has expired") from None
    except jwt.InvalidAudienceError:
        raise TokenInvalid(f"the token is not for the {audience} of the mesh") from None
    except (jwt.InvalidTokenError, ValueError, TypeError, RecursionError):
        raise TokenInvalid("the token is not valid: its signature or its claims are wrong") from None
    principal = _principal(claims)
    if principal.token_id in keys.revoked:
        raise TokenRevoked("the token was revoked")
    return principal


def _principal(claims: dict[str, Any]) -> Principal:
    roles, kind = claims.get("roles", []), claims.get("kind")
    if not isinstance(kind, str) or kind not in set(Kind):
        raise TokenInvalid("the token names no kind of caller that this mesh knows")
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise TokenInvalid("the roles of the token are not a list of names")
    name = str(claims["sub"])
    if not name.isprintable() or name.startswith(("agent:", "service:")):
        raise TokenInvalid("the token has a name that is the identity of a member, or is not printable")
    tenant = claims.get("tenant") or DEFAULT_TENANT
    if not isinstance(tenant, str) or not TENANT.fullmatch(tenant):
        raise TokenInvalid("the token names no tenant")
    return Principal(
        Kind(kind),
        name,
        tenant,
        frozenset(roles),
        float(claims["exp"]),
        str(claims["jti"]),
    )


def claims_of(token: str) -> dict[str, Any]:
    """Returns the claims of a token without verifying it. Raises TokenInvalid if it is no token."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, binascii.Error, RecursionError):
        raise TokenInvalid("the text is not a JSON Web Token") from None
    if not isinstance(claims, dict):
        raise TokenInvalid("the text is not a JSON Web Token")
    return claims
