"""`archon serve --a2a`: serves a role whose tasks are tasks of an A2A agent elsewhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.target.mesh import find_registry

TOKEN: Final = "ARCHON_A2A_TOKEN"
"""The variable with the token that is presented to the agent, as a bearer token."""


@dataclass(frozen=True, slots=True)
class RemoteRole:
    """The role for an A2A agent, as the options of the command say."""

    url: str
    keys: str = ""
    name: str = ""
    description: str = ""
    capabilities: Sequence[str] = ()


def serve_a2a(role: RemoteRole, host: str, port: int, advertise: str, registry: str, *, check: bool) -> int:
    """Serves the role until a signal, or only reads the card of the agent, and returns the exit code. Raises CliError
    if an option is invalid, or the card cannot be used."""
    parts = urlsplit(role.url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.username is not None:
        hint = "It is the URL of its card, or the one below which the card is at /.well-known/agent-card.json."
        raise CliError(f"--a2a takes the URL of an agent, not {role.url!r}", hint=hint, code=USAGE)
    if find_spec("a2a") is None:
        hint = "pip install 'archon-mesh[a2a]' installs it."
        raise CliError("archon serve --a2a needs an optional package", hint=hint)
    from archon_services.agents.a2a.app import A2ARoleOptions, serve_a2a_role
    from archon_services.agents.a2a.remote import RemoteOptions
    from archon_services.agents.settings import AgentServiceSettings

    remote = RemoteOptions(role.url, os.environ.get(TOKEN, ""), role.keys)
    options = A2ARoleOptions(remote, role.name, role.description, tuple(role.capabilities))
    if check:
        print(asyncio.run(_card_text(options)))
        return 0
    own = find_registry(registry)
    settings = AgentServiceSettings(registry=own, host=host, port=port, advertise=advertise, log_level="info")
    return serve_a2a_role(options, settings)


async def _card_text(options: object) -> str:
    """Returns the card of the agent as the role would have it."""
    from archon.errors import ArchonError
    from archon_services.agents.a2a.app import A2ARoleOptions, capabilities_of, role_of
    from archon_services.agents.a2a.remote import RemoteAgent

    assert isinstance(options, A2ARoleOptions)
    try:
        async with RemoteAgent(options.remote) as agent:
            card = await agent.card()
        lines = [
            f"The role {role_of(options, card)} hands its tasks to the agent {card.name} {card.version}.",
            f"  description   {options.description or card.description}",
            f"  capabilities  {', '.join(each.id for each in capabilities_of(options, card)) or 'none'}",
        ]
    except ArchonError as error:
        raise CliError(str(error)) from None
    return "\n".join(lines)
