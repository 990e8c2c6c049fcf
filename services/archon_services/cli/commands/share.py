"""`archon share`: a read-only link to a run, for people without credentials of the mesh."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Final

import typer

from archon.principal import DEFAULT_TENANT, Kind, Principal
from archon.security.tokens import claims_of
from archon_services.cli.commands.token import lifetime_of
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import LAST, OrchestratorOption
from archon_services.cli.target.mesh import connecting, find_memory, find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id
from archon_services.local_mesh import live_state
from archon_services.local_mesh.browser_login import gateway_url
from archon_services.local_mesh.tokens import TokenIssuer

_SECONDS: Final = 60.0
"""The lifetime of the token that revokes a link of the web page."""


def share(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run id, the start of one, or 'last'.")] = LAST,
    expires: Annotated[str, typer.Option(metavar="TIME", help="How long it is valid, such as 30m, 12h or 7d.")] = "7d",
    revoke: Annotated[str, typer.Option(metavar="LINK", help="Have the mesh refuse this link from now on.")] = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Print a read-only link to a run, or revoke one.

    The holder of the link can read the run and its events, and nothing else, until it ends or is revoked.
    The link goes to the HTTP gateway of the mesh in ARCHON_HOME, or to ARCHON_PUBLIC_URL.
    """
    issuer = TokenIssuer(find_home())
    if revoke:
        _revoke(issuer, revoke.partition("/shared/")[2].partition("/")[0] or revoke)
        print("The link is revoked.")
        return
    lifetime = lifetime_of(expires)
    run_id = asyncio.run(_existing(find_orchestrator(orchestrator), run))
    home = find_home()
    state = live_state(home)
    base = os.environ.get("ARCHON_PUBLIC_URL", "").rstrip("/") or (gateway_url(state) if state is not None else "")
    if not base:
        raise CliError(f"no HTTP gateway runs in {home.root}", hint="`archon up` starts one.", code=NOT_FOUND)
    print(f"{base}/shared/{issuer.share(run_id, DEFAULT_TENANT, lifetime=lifetime)}")


def _revoke(issuer: TokenIssuer, link: str) -> None:
    """Revokes a link of this command, or of the web page."""
    if "." not in link:
        asyncio.run(_revoke_made(issuer, link))
        return
    claims = claims_of(link)
    if claims.get("aud") != "shares":
        raise CliError("this is no link to a run", code=USAGE)
    issuer.revoke(str(claims["jti"]))


async def _revoke_made(issuer: TokenIssuer, link: str) -> None:
    """Deletes the record of a link that was made in the web page. Raises LinkRefused if there is none."""
    from archon.memory.working import WorkingMemoryClient
    from archon.security.credentials import Tokens
    from archon_services.common.sealing import Sealer
    from archon_services.gateway.own_values import TENANT, OwnValues
    from archon_services.gateway.shares.made import MadeLinks

    key = find_home().session_key
    if not key.exists():
        raise CliError(f"no HTTP gateway was started in {find_home().root}", code=NOT_FOUND)
    memory = find_memory("")
    credentials = Tokens(issuer.token(Principal(Kind.SERVICE, "share", TENANT), lifetime=_SECONDS))
    with connecting("memory service", memory):
        async with OwnValues(WorkingMemoryClient(memory, TENANT, credentials=credentials)) as values:
            links = MadeLinks(values, Sealer.from_file(key))
            await links.revoke(await links.open(link))


async def _existing(orchestrator: str, name: str) -> str:
    async with orchestrator_client(orchestrator) as client:
        return (await client.get(await find_run_id(client, name))).run_id
