"""Links to a run: tokens of the mesh for the audience `shares`, which let read this run alone.

They are signed with the key of the mesh, end by themselves, and are revoked as other tokens are (`archon share
--revoke`): every replica refuses them within seconds, and none keeps a list of its own.
"""

from __future__ import annotations

import time

from archon.errors import LinkRefused, TokenExpired, Unauthenticated
from archon.security.authenticator import Caller
from archon.security.keys import KeyFile, KeySet
from archon.security.tokens import verify
from archon_services.gateway.identity.visitors import Visitor


class ShareLinks:
    """Opens links by the public keys of the mesh; without keys there are none."""

    def __init__(self, keys: KeyFile | None) -> None:
        self._keys = keys

    def open(self, token: str) -> tuple[Visitor, str]:
        """Returns the visitor with a link, and its run. Raises LinkRefused if the link has expired, was revoked, or
        never existed."""
        try:
            if self._keys is None:
                raise LinkRefused
            principal = verify(token, self._keys.read(), "shares")
            [run_id] = principal.roles
        except (Unauthenticated, LinkRefused, ValueError):
            raise LinkRefused("this link has expired, was revoked, or never existed") from None
        return Visitor(Caller(principal.tenant, f"share:{principal.token_id}", principal), ()), run_id

    def check(self, visitor: Visitor) -> None:
        """Raises LinkRefused if the link of a stream in progress was revoked, and TokenExpired if it has expired."""
        keys: KeySet | None = self._keys.read() if self._keys is not None else None
        principal = visitor.caller.principal
        assert principal is not None
        if keys is None or principal.token_id in keys.revoked:
            raise LinkRefused("this link was revoked")
        if time.time() >= principal.expires:
            raise TokenExpired("this link has expired")
