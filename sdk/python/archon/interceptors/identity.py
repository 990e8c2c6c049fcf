"""Tenant and identity of a caller. They come from credentials, never from a field of a request.

Services of one mesh pass them on as metadata. They are accepted only from a caller that presents the secret of the mesh
(`ARCHON_MESH_SECRET`). Without a secret every caller has the tenant `default` and the identity `anonymous`.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from archon import context

_SECRET_KEY: Final = "archon-mesh-secret"
_TENANT_KEY: Final = "archon-tenant"
_IDENTITY_KEY: Final = "archon-identity"


_presented: ContextVar[str | None] = ContextVar("archon_presented_secret", default=None)
"""The secret of calls to another mesh; None for calls within this one."""


def _secret() -> str:
    return os.environ.get("ARCHON_MESH_SECRET", "")


@contextmanager
def presenting(secret: str) -> Iterator[None]:
    """Calls within the block, and within asyncio tasks that are created there, go to another mesh: they present its
    secret, or none if it is empty, and never the secret of this mesh."""
    token = _presented.set(secret)
    try:
        yield
    finally:
        _presented.reset(token)


def outgoing() -> tuple[tuple[str, str], ...]:
    """Metadata that carries tenant and identity of the call being served to the next service."""
    presented = _presented.get()
    secret = _secret() if presented is None else presented
    if not secret:
        return ()
    call = context.current()
    return ((_SECRET_KEY, secret), (_TENANT_KEY, call.tenant), (_IDENTITY_KEY, call.identity))


def incoming(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[str, str]:
    """(tenant, identity) of an incoming call."""
    secret = _secret()
    if not secret:
        return context.DEFAULT_TENANT, context.ANONYMOUS
    fields = {key: value for key, value in metadata if isinstance(value, str)}
    if not hmac.compare_digest(fields.get(_SECRET_KEY, "").encode(), secret.encode()):
        return context.DEFAULT_TENANT, context.ANONYMOUS
    return fields.get(_TENANT_KEY, context.DEFAULT_TENANT), fields.get(_IDENTITY_KEY, context.ANONYMOUS)
