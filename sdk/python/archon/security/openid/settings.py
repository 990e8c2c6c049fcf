"""The OpenID provider whose tokens a server accepts, by the environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from archon.errors import FailedPrecondition, InvalidArgument
from archon.principal import Kind
from archon.security.openid.http import checked_url

ISSUER: Final = "ARCHON_OIDC_ISSUER"
AUDIENCE: Final = "ARCHON_OIDC_AUDIENCE"
KINDS: Final = "ARCHON_OIDC_KINDS"
CLAIM: Final = "ARCHON_OIDC_CLAIM"
TENANT_CLAIM: Final = "ARCHON_OIDC_TENANT_CLAIM"

ANY_GROUP: Final = "*"
"""Stands for every caller, also one without a group."""

LEEWAY: Final = 30.0
"""Seconds by which the clock of the provider may differ."""

PEOPLE: Final = frozenset({Kind.VIEWER, Kind.AUDITOR, Kind.OPERATOR, Kind.ADMIN})
"""Kinds that a provider may give: agents and services have credentials of the mesh alone."""

_NEXT: Final = re.compile(rf",(?=\s*(?:{'|'.join(Kind)})\s*=)")
_IS_NAME: Final = re.compile(r"\w+=")


@dataclass(frozen=True, slots=True)
class OpenIdSettings:
    """A provider, and how the claims of its tokens are read.

    `kinds` are pairs of a kind and a group: the first pair whose group the caller has gives its kind. `claim` has the
    groups; `tenant_claim` the tenant, empty if every caller is of the tenant `default`. `leeway` is in seconds."""

    issuer: str
    audiences: frozenset[str]
    kinds: tuple[tuple[Kind, str], ...]
    claim: str = "groups"
    tenant_claim: str = ""
    leeway: float = LEEWAY


def own_settings() -> OpenIdSettings | None:
    """Returns the settings of the environment; None if it names no issuer. Raises FailedPrecondition if they cannot be
    used."""
    issuer = os.environ.get(ISSUER, "").strip()
    if not issuer:
        return None
    try:
        checked_url(issuer)
    except InvalidArgument as error:
        raise FailedPrecondition(f"{ISSUER}: {error}") from None
    if "?" in issuer or "#" in issuer:
        raise FailedPrecondition(f"{ISSUER}: {issuer!r} has a query, which no issuer has")
    audiences = frozenset(filter(None, (each.strip() for each in os.environ.get(AUDIENCE, "").split(","))))
    if not audiences:
        raise FailedPrecondition(f"{AUDIENCE} is not set: tokens for other programs would be let in")
    return OpenIdSettings(
        issuer,
        audiences,
        kinds_in(os.environ.get(KINDS, "")),
        os.environ.get(CLAIM, "").strip() or "groups",
        os.environ.get(TENANT_CLAIM, "").strip(),
        LEEWAY,
    )


def kinds_in(text: str) -> tuple[tuple[Kind, str], ...]:
    """Returns the kinds and groups of a text such as `admin=mesh-admins,operator=devs,viewer=*`. A group may be a name
    of LDAP, which has commas. Raises FailedPrecondition."""
    pairs: list[tuple[Kind, str]] = []
    for part in _NEXT.split(text) if text.strip() else []:
        kind, separator, group = (each.strip() for each in part.partition("="))
        if not separator or not group:
            raise FailedPrecondition(f"{KINDS}: {part.strip()!r} is not KIND=GROUP")
        if kind not in PEOPLE:
            reason = "agents and services have credentials of the mesh alone" if kind in set(Kind) else "unknown kind"
            raise FailedPrecondition(f"{KINDS}: {kind!r}: {reason}; expected one of {', '.join(sorted(PEOPLE))}")
        if "," in group and not _IS_NAME.match(group):
            raise FailedPrecondition(f"{KINDS}: {group!r} is no group: expected KIND=GROUP after each comma")
        pairs.append((Kind(kind), group))
    if not pairs:
        raise FailedPrecondition(f"{KINDS} is not set: no caller would be let in; viewer={ANY_GROUP} lets all in")
    return tuple(pairs)
