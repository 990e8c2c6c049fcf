"""Who owns a registration: the client that knows its token. The registry stores a digest of the token only.

A client chooses the token with its first registration, or is issued one. The smallest member sends no token at all: it
may renew its registration, and change or end it only with the token that it was issued.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from archon.api.registry.v1.registry_pb2 import Registration
from archon.errors import PermissionDenied

_CHOSEN: Final = "chosen:"
_ISSUED: Final = "issued:"


def owner_of(token: str) -> str:
    """Returns the owner that a client with this token claims to be; empty without a token."""
    return _CHOSEN + hashlib.sha256(token.encode()).hexdigest() if token else ""


def issue() -> tuple[str, str]:
    """Returns a new token, and its owner."""
    token = secrets.token_urlsafe(24)
    return token, _ISSUED + hashlib.sha256(token.encode()).hexdigest()


def owns(registration: Registration, claimed: str) -> bool:
    """Whether the claimed owner owns the registration. One of an earlier version of the registry has no owner: anyone
    does."""
    return not registration.owner or _digest(registration.owner) == _digest(claimed)


def may_renew(registration: Registration, claimed: str) -> bool:
    """Whether the claimed owner may renew the registration. If the client has never sent a token, anyone may."""
    without_token = not claimed or claimed.startswith(_ISSUED)
    return owns(registration, claimed) or (without_token and registration.owner.startswith(_ISSUED))


def is_claim(current: Registration, registration: Registration) -> bool:
    """Whether the registration gives an owner to one that had none."""
    return bool(registration.owner) and not current.owner


def refusal(registration: Registration) -> PermissionDenied:
    """The error for a client that does not own the registration."""
    return PermissionDenied(
        f"the instance_id {registration.instance_id} is registered by another client: a change needs the registration "
        "token",
        metadata={"instance_id": registration.instance_id, "role": registration.role},
    )


def _digest(owner: str) -> str:
    return owner.partition(":")[2]
