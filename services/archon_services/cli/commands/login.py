"""`archon login`: signs in at the OpenID provider of a context."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer

from archon.errors import InvalidArgument, Unavailable
from archon.security.openid.endpoints import discover
from archon_services.cli.commands.context import checked_issuer
from archon_services.cli.contexts import read_contexts
from archon_services.cli.errors import NOT_FOUND, UNREACHABLE, USAGE, CliError
from archon_services.cli.interrupts import Signals
from archon_services.cli.login.device_flow import Invitation, sign_in
from archon_services.cli.login.grants import granted
from archon_services.cli.login.stored import Login, write_login
from archon_services.reports.texts import zoned_time

ContextOption = Annotated[
    str, typer.Option("--context", metavar="NAME", help="The context; by default the one in use.")
]


def login(
    issuer: Annotated[
        str, typer.Option(metavar="URL", help="The OpenID provider; by default the one of the context.")
    ] = "",
    client_id: Annotated[
        str, typer.Option(metavar="ID", help="The client at the provider; by default the one of the context.")
    ] = "",
    context: ContextOption = "",
) -> None:
    """Sign in at the OpenID provider of a mesh, in a browser on any machine.

    Commands present the token to the services of the context alone, and get another one before it ends. `archon logout`
    ends the login.
    """
    name = context_name(context)
    values = read_contexts().contexts[name]
    issuer, client_id = checked_issuer(issuer) if issuer else values.issuer, client_id or values.client_id
    if not issuer or not client_id:
        missing = "--issuer URL" if not issuer else "--client-id ID"
        hint = f"archon context set {name} --issuer URL --client-id ID keeps both."
        raise CliError(f"the context {name} has no OpenID provider to sign in at: use {missing}", hint=hint, code=USAGE)
    given = asyncio.run(_sign_in(issuer, client_id))
    write_login(name, given)
    until = zoned_time(given.expires)
    print(f"Signed in for the context {name}. The token is valid until {until}", end="")
    print(", and replaced before it ends." if given.refresh_token else ".")
    if os.environ.get("ARCHON_HOME"):
        print("ARCHON_HOME is set in this terminal and comes before the context.")


async def _sign_in(issuer: str, client_id: str) -> Login:
    async def work() -> Login:
        try:
            endpoints = await discover(issuer)
            return granted(await sign_in(endpoints, client_id, _invite), issuer, client_id)
        except Unavailable as error:
            raise CliError(f"the OpenID provider cannot be used: {error}", code=UNREACHABLE) from None
        except InvalidArgument as error:
            raise CliError(f"invalid issuer: {error}", code=USAGE) from None

    with Signals() as signals:
        return await signals.guard(work())


def _invite(invitation: Invitation) -> None:
    print("Open this page in a browser, on any machine:\n")
    print(f"  {invitation.url}\n")
    print(f"and enter the code  {invitation.code}\n")
    if invitation.whole:
        print("or open the page that has the code already:\n")
        print(f"  {invitation.whole}\n")
    print(f"The code is valid for {max(1, round(invitation.seconds / 60))} min. Waiting ...", flush=True)


def context_name(name: str) -> str:
    """Returns the name of the context that is meant. Raises CliError if there is none."""
    contexts = read_contexts()
    if not (chosen := name or contexts.current):
        hint = "`archon context use NAME` uses one; --context NAME names one."
        raise CliError("no context is in use", hint=hint, code=NOT_FOUND)
    if chosen not in contexts.contexts:
        hint = f"archon context set {chosen} --orchestrator HOST:PORT --issuer URL --client-id ID"
        raise CliError(f"there is no context {chosen!r}", hint=hint, code=NOT_FOUND)
    return chosen
