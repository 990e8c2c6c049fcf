"""Who asks. Tenant and identity come from credentials, never from a field of a request.

Between services of one mesh they are carried on the hop, and believed only from a caller that shows the mesh's own
secret (`ARCHON_MESH_SECRET`). Without one nobody is believed: tenant `default`, identity `anonymous`.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from typing import Final

from archon import context

_SECRET_KEY: Final = "archon-mesh-secret"
_TENANT_KEY: Final = "archon-tenant"
_IDENTITY_KEY: Final = "archon-identity"


def _secret() -> str:
    return os.environ.get("ARCHON_MESH_SECRET", "")


def outgoing() -> tuple[tuple[str, str], ...]:
    """Metadata that carries the identity of the call being served to the next service."""
    secret = _secret()
    if not secret:
        return ()
    call = context.current()
    return ((_SECRET_KEY, secret), (_TENANT_KEY, call.tenant), (_IDENTITY_KEY, call.identity))


def incoming(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[str, str]:
    """(tenant, identity) of a call that came in."""
    secret = _secret()
    if not secret:
        return context.DEFAULT_TENANT, context.ANONYMOUS
    shown = {key: value for key, value in metadata if isinstance(value, str)}
    if not hmac.compare_digest(shown.get(_SECRET_KEY, "").encode(), secret.encode()):
        return context.DEFAULT_TENANT, context.ANONYMOUS
    return shown.get(_TENANT_KEY, context.DEFAULT_TENANT), shown.get(_IDENTITY_KEY, context.ANONYMOUS)
