"""Links to a run, which let read this run alone: tokens of the mesh for the audience `shares`, and links that callers
of the gateway have made.

Tokens are signed with the key of the mesh, end by themselves, and are revoked as other tokens are (`archon share
--revoke`): every replica refuses them within seconds, and none keeps a list of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from archon.errors import LinkRefused, TokenExpired, Unauthenticated
from archon.principal import Kind, Principal
from archon.security.authenticator import Caller
from archon.security.keys import KeyFile, KeySet
from archon.security.tokens import verify
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.shares.made import MadeLinks


class ShareLinks:
    """Opens links: tokens by the public keys of the mesh, without which there are none, and those that were `made`."""

    def __init__(self, keys: KeyFile | None, made: MadeLinks) -> None:
        self._keys, self._made = keys, made

    async def open(self, link: str) -> tuple[Visitor, str]:
        """Returns the visitor with a link, and its run. Raises LinkRefused if the link has expired, was revoked, or
        never existed, and Unavailable if its record cannot be read."""
        if "." not in link:
            made = await self._made.open(link)
            return _visitor(Principal(Kind.VIEWER, made.by, made.tenant, frozenset(), made.until, made.id)), made.run_id
        try:
            if self._keys is None:
                raise LinkRefused
            principal = verify(link, self._keys.read(), "shares")
            [run_id] = principal.roles
        except (Unauthenticated, LinkRefused, ValueError):
            raise LinkRefused("this link has expired, was revoked, or never existed") from None
        return _visitor(principal), run_id

    @contextmanager
    def watched(self, link: str, visitor: Visitor, run_id: str) -> Iterator[None]:
        """Notices within the block if the link of a visitor is revoked elsewhere."""
        principal = visitor.caller.principal
        if "." in link or principal is None:
            yield
            return
        with self._made.watched(principal.tenant, run_id, principal.token_id):
            yield

    def check(self, visitor: Visitor) -> None:
        """Raises LinkRefused if the link of a stream in progress was revoked, and TokenExpired if it has expired."""
        keys: KeySet | None = self._keys.read() if self._keys is not None else None
        principal = visitor.caller.principal
        assert principal is not None
        revoked = keys is not None and principal.token_id in keys.revoked
        if revoked or self._made.is_revoked(principal.token_id):
            raise LinkRefused("this link was revoked")
        if time.time() >= principal.expires:
            raise TokenExpired("this link has expired")


def _visitor(principal: Principal) -> Visitor:
    return Visitor(Caller(principal.tenant, f"share:{principal.token_id}", principal), ())
