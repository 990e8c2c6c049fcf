"""`archon share`: a read-only link to a run, for people without credentials of the mesh."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer

from archon.principal import DEFAULT_TENANT
from archon.security.tokens import claims_of
from archon_services.cli.commands.token import lifetime_of
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import LAST, OrchestratorOption
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id
from archon_services.local_mesh import live_state
from archon_services.local_mesh.browser_login import gateway_url
from archon_services.local_mesh.tokens import TokenIssuer


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
        link = revoke.partition("/shared/")[2].partition("/")[0] or revoke
        claims = claims_of(link)
        if claims.get("aud") != "shares":
            raise CliError("this is no link to a run", code=USAGE)
        issuer.revoke(str(claims["jti"]))
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


async def _existing(orchestrator: str, name: str) -> str:
    async with orchestrator_client(orchestrator) as client:
        return (await client.get(await find_run_id(client, name))).run_id
