"""`archon logout`: ends the login of a context."""

from __future__ import annotations

import asyncio
import sys

from archon_services.cli.commands.login import ContextOption, context_name
from archon_services.cli.errors import CliError
from archon_services.cli.login.stored import Login, only_one, read_login, remove_login


def logout(context: ContextOption = "") -> None:
    """End the login of a context: its provider revokes it, if it can, and its file is removed."""
    name = context_name(context)
    with only_one(name):
        try:
            login = read_login(name)
        except CliError:
            login = None  # the file cannot be used, and is removed nevertheless
        fault = asyncio.run(_revoke(login)) if login is not None else ""
        removed = remove_login(name)
    if fault:
        print(f"note: the provider has not revoked the login: {fault}", file=sys.stderr)
    print(f"The login of the context {name} has ended." if removed else f"The context {name} has no login.")


async def _revoke(login: Login) -> str:
    """Revokes the refresh token, else the token (RFC 7009). Returns why that failed; empty if it did not."""
    from archon.errors import ArchonError
    from archon.security.openid.endpoints import discover
    from archon.security.openid.http import request_json
    from archon_services.cli.login.grants import refusal

    kind = "refresh_token" if login.refresh_token else "access_token"
    form = {"token": login.refresh_token or login.token, "token_type_hint": kind, "client_id": login.client_id}
    try:
        endpoints = await discover(login.issuer)
        if not endpoints.revocation:
            return "it has no address for that"
        status, answer = await request_json(endpoints.revocation, form)
    except ArchonError as error:
        return str(error)
    return "" if status == 200 else refusal(answer, status)[1]
