"""`archon whoami`: as whom commands call a mesh."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass

from archon_services.cli.contexts import active_context, find_home
from archon_services.cli.options import JsonOption, OrchestratorOption
from archon_services.cli.render.output import print_json, print_table
from archon_services.cli.target.mesh import target_or_none
from archon_services.reports.texts import zoned_time


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller as its credentials name it; `kind` is empty if the mesh decides it. `expires` is in wall seconds, None
    if it is unknown."""

    identity: str
    kind: str
    tenant: str
    expires: float | None
    source: str
    issuer: str = ""


def whoami(orchestrator: OrchestratorOption = "", as_json: JsonOption = False) -> None:
    """Show as whom commands call the mesh, until when, and where the token or the certificate comes from.

    The token is not verified: `archon runs` tells whether the mesh accepts it.
    """
    caller = _caller(orchestrator)
    if as_json:
        print_json(asdict(caller))
        return
    until = "-" if caller.expires is None else zoned_time(caller.expires)
    if caller.expires is not None and caller.expires <= time.time():
        until += ", expired"
    rows = [
        ("identity", caller.identity),
        ("kind", caller.kind or "the mesh decides it by the groups"),
        ("tenant", caller.tenant or "the mesh decides it"),
        ("until", until),
        ("from", caller.source),
    ]
    if caller.issuer:
        rows.append(("issuer", caller.issuer))
    print_table(("field", "value"), rows, folded=(1,))


def _caller(orchestrator: str) -> Caller:
    from archon import context as call_context
    from archon.security.credentials import credentials_for
    from archon.security.transport import folder_for

    target = target_or_none(orchestrator, find_home())
    address = target.orchestrator if target is not None else ""
    presented = dict(credentials_for(address, "services").metadata()).get("authorization", "")
    if presented:
        return _of_token(presented.removeprefix("Bearer "), _source(address))
    folder = folder_for(address) if address else None
    if folder is not None:
        own = folder.read()
        member = own.identity
        is_member = member.kind in ("agent", "service")
        identity = f"{member.kind}:{member.name}" if is_member else member.name
        return Caller(identity, member.kind.value, member.tenant, own.expires, f"the certificate in {folder.folder}")
    return Caller(call_context.ANONYMOUS, "none", "default", None, "no token and no certificate")


def _of_token(token: str, source: str) -> Caller:
    from archon.errors import TokenInvalid
    from archon.principal import Kind, Principal
    from archon.security.openid.caller import name_of
    from archon.security.tokens import claims_of

    claims = claims_of(token)
    expires, issuer = claims.get("exp"), str(claims.get("iss") or "")
    until = float(expires) if isinstance(expires, int | float) else None
    named = claims.get("kind")
    if isinstance(named, str) and named in set(Kind) and "tenant" in claims:
        kind = Kind(named)
        identity = Principal(kind, str(claims.get("sub"))).identity
        return Caller(identity, kind.value, str(claims["tenant"]), until, source, issuer)
    try:
        name = name_of(claims)
    except TokenInvalid:
        name = "-"
    return Caller(name, "", "", until, source, issuer)


def _source(address: str) -> str:
    """Returns where the token for an address comes from, in the order in which calls look for one."""
    from archon_services.cli.login.stored import login_file

    for variable in ("ARCHON_TOKEN", "ARCHON_TOKEN_FILE"):
        if value := os.environ.get(variable, ""):
            return variable if variable == "ARCHON_TOKEN" else f"{value} ({variable})"
    active = active_context()
    if active is not None and active[1].serves(address):
        name, values = active
        if login_file(name).exists():
            return f"the login of the context {name}"
        if values.token_file:
            return f"{values.token_file}, of the context {name}"
    return f"the mesh in {find_home().root}"
