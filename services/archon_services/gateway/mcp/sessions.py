"""Sessions of clients of revisions before 2026-07-28. The id of a session is its sealed content: a client's
capabilities, its revision and its identity."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import NotFound
from archon_mesh.tools.mcp.serving.client import LogLevel
from archon_services.common.sealing import Sealer
from archon_services.gateway.identity.visitors import Visitor

LASTS: Final = 30 * 24 * 3600
"""Seconds after which the id of a session opens no more: the client begins another one. Many clients do not, and
are cut off: so it is long."""

MAX_CAPABILITIES: Final = 2_048
"""Characters of a client's capabilities as JSON. Of larger ones, only elicitation counts."""

_PURPOSE: Final = "mcp-session"


@dataclass(slots=True)
class ClientSession:
    """A session. A client without one, such as curl, has the defaults. `level` is the least severe level of log
    messages that it gets; a change of it holds for one replica."""

    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    version: str = "2025-03-26"
    capabilities: dict[str, Any] = field(default_factory=dict)
    level: LogLevel | None = "info"


def opened(sealer: Sealer, visitor: Visitor, session_id: str) -> ClientSession:
    """Returns the session with this id. Raises NotFound unless the same identity has begun it within LASTS seconds."""
    text = sealer.open(_PURPOSE, session_id, seconds=LASTS)
    if text is not None:
        nonce, tenant, identity, version, capabilities = json.loads(text)
        if (tenant, identity) == visitor.key:
            return ClientSession(nonce, version, capabilities)
    raise NotFound("no such MCP session: begin another one")


def session_id(sealer: Sealer, visitor: Visitor, session: ClientSession) -> str:
    """Returns the id of a session of a visitor."""
    capabilities = session.capabilities
    if len(json.dumps(capabilities)) > MAX_CAPABILITIES:
        capabilities = {key: value for key, value in capabilities.items() if key == "elicitation"}
    text = json.dumps([session.nonce, *visitor.key, session.version, capabilities], separators=(",", ":"))
    return sealer.seal(_PURPOSE, text)
