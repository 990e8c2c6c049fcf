"""The caller that the claims of a token of an OpenID provider name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from archon import context
from archon.errors import PermissionDenied, TokenInvalid
from archon.principal import DEFAULT_TENANT, TENANT, Kind, Principal
from archon.security.openid.settings import ANY_GROUP, OpenIdSettings

NAME_CLAIMS: Final = ("preferred_username", "email", "sub")
"""The first of these claims that can be used is the name of the caller."""

_NAME: Final = re.compile(r"[!-~](?:[ -~]{0,254}[!-~])?")
"""Metadata of gRPC has names in printable ASCII alone."""

_MEMBERS: Final = (f"{Kind.AGENT}:", f"{Kind.SERVICE}:")


def caller_of(claims: Mapping[str, Any], token: str, settings: OpenIdSettings) -> Principal:
    """Returns the caller of a token that was verified. Raises TokenInvalid if it has no name, PermissionDenied if none
    of its groups has a kind, or it has no tenant."""
    name = name_of(claims)
    groups = groups_in(claims, settings.claim)
    kind = next((kind for kind, group in settings.kinds if group == ANY_GROUP or group in groups), None)
    if kind is None:
        found = f"{len(groups)} groups" if groups else "no group"
        raise PermissionDenied(
            f"{name} has {found} in the claim {settings.claim!r}, none of which has a kind in this mesh",
            metadata={"identity": name, "claim": settings.claim},
        )
    return Principal(
        kind,
        name,
        _tenant(claims, settings.tenant_claim, name),
        frozenset(),
        float(claims["exp"]) + settings.leeway,
        token_id_of(claims, token),
    )


def token_id_of(claims: Mapping[str, Any], token: str) -> str:
    """Returns the id by which a token can be revoked in a mesh: its own, else a digest of it."""
    token_id = claims.get("jti")
    return token_id if isinstance(token_id, str) and token_id else hashlib.sha256(token.encode()).hexdigest()[:32]


def name_of(claims: Mapping[str, Any]) -> str:
    """Returns the name of a caller, without names that only members of the mesh have, and addresses that the provider
    has not verified. Raises TokenInvalid if there is no name left."""
    for claim in NAME_CLAIMS:
        name = claims.get(claim)
        if claim == "email" and claims.get("email_verified") in (False, "false"):
            continue
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            continue
        if not name.startswith(_MEMBERS) and name != context.ANONYMOUS:
            return name
    raise TokenInvalid(f"the token has no name that can be used: {', '.join(NAME_CLAIMS)}")


def groups_in(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Returns the groups in a claim: a list, or a text, which is one group; words of `scope` are one each. A claim with
    dots may be a path, such as `realm_access.roles`."""
    value = _value(claims, claim)
    if isinstance(value, str):
        return frozenset(value.split() if claim == "scope" else (value,))
    return frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()


def _tenant(claims: Mapping[str, Any], claim: str, name: str) -> str:
    if not claim:
        return DEFAULT_TENANT
    tenant = _value(claims, claim)
    if not isinstance(tenant, str) or not TENANT.fullmatch(tenant):
        raise PermissionDenied(
            f"{name} has no tenant: the claim {claim!r} of its token has none", metadata={"identity": name}
        )
    return tenant


def _value(claims: Mapping[str, Any], claim: str) -> Any:
    if claim in claims:
        return claims[claim]
    value: Any = claims
    for part in claim.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
