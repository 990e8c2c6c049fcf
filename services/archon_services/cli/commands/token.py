"""`archon token`: tokens of a mesh on this machine."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Final

import typer

from archon.errors import InvalidArgument
from archon.identifiers import check_role
from archon.principal import TENANT, Kind, Principal
from archon.security.tokens import Audience, claims_of
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.options import JsonOption
from archon_services.cli.render.output import print_json, print_table
from archon_services.common.sealing import Sealer
from archon_services.local_mesh import live_state
from archon_services.local_mesh.audit_keys import prepare_audit_key
from archon_services.local_mesh.browser_login import once
from archon_services.local_mesh.tokens import TokenIssuer, user
from archon_services.reports.texts import zoned_time

token = typer.Typer(invoke_without_command=True)

_KINDS: Final = ("viewer", "auditor", "operator", "admin")
_TOKEN_ID: Final = re.compile(r"[\w:~-]{1,128}")
_LIFETIME: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST: Final = 366 * 86400.0
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,256}")


@token.callback()
def issue(
    call: typer.Context,
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="Of a person or a program: viewer, auditor, operator or admin.")
    ] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help="Who it is for; default: you.")] = "",
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="A role that an agent with this token may register. Repeatable."),
    ] = None,
    service: Annotated[
        str,
        typer.Option(metavar="NAME", help="A service or a front end, which may act for others, such as orchestrator."),
    ] = "",
    agents: Annotated[
        bool, typer.Option("--for-agents", help="For calls of agents themselves, instead of the services.")
    ] = False,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="The tenant; services serve all of them.")] = "default",
    expires: Annotated[str, typer.Option(metavar="TIME", help="How long it is valid, such as 30m, 12h or 7d.")] = "12h",
    browser: Annotated[
        bool,
        typer.Option("--browser", help="Print an address that logs a browser in at the HTTP gateway, once."),
    ] = False,
) -> None:
    """Print a token of the mesh in ARCHON_HOME, for calls from elsewhere.

    \b
    grpcurl -H "authorization: Bearer $(archon token)" ...
    ARCHON_TOKEN=$(archon token --role reviewer) python reviewer.py

    Commands and programs in the folder of the mesh find a token by themselves. With --role it is for an agent, with
    --service for a process of the mesh: one token for services, and one for agents, separated by a comma.
    """
    if call.invoked_subcommand is not None:
        return
    roles = role or []
    if sum(map(bool, (roles, service, kind or agents))) > 1:
        raise CliError("use one of --role, --service, and --kind or --for-agents", code=USAGE)
    if kind and kind not in _KINDS:
        raise CliError(f"unknown kind {kind!r}: expected one of {', '.join(_KINDS)}", code=USAGE)
    for given in filter(None, (name, service)):
        if not _NAME.fullmatch(given):
            raise CliError(f"invalid name {given!r}", hint="Use up to 256 letters, digits, and . _ @ -", code=USAGE)
    try:
        for each in roles:
            check_role(each)
    except InvalidArgument as error:
        raise CliError(str(error), code=USAGE) from None
    if not TENANT.fullmatch(tenant):
        raise CliError(
            f"invalid tenant {tenant!r}", hint="Use up to 63 letters, digits and dashes, no dash first.", code=USAGE
        )
    lifetime = lifetime_of(expires)
    issuer = TokenIssuer(find_home())
    audiences: list[Audience] = ["services", "agents"]
    if roles:
        principal = Principal(Kind.AGENT, name or roles[0], tenant, frozenset(roles))
    elif service:
        principal = Principal(Kind.SERVICE, service, tenant)
    else:
        principal = Principal(Kind(kind or "admin"), name or user().name, tenant)
        audiences = ["agents" if agents else "services"]
    tokens = [issuer.token(principal, audience, lifetime=lifetime) for audience in audiences]
    if browser:
        if roles or service or agents:
            raise CliError("--browser is for people: use it with --kind and --name alone", code=USAGE)
        print(_address(tokens[0]))
    else:
        print(",".join(tokens))


def _address(text: str) -> str:
    """Returns the address of a one-time login. Raises CliError if no HTTP gateway runs here."""
    home = find_home()
    state = live_state(home)
    if state is None or not (address := once(home, state, text)):
        raise CliError(f"no HTTP gateway runs in {home.root}", hint="`archon up` starts one.", code=NOT_FOUND)
    return address


@token.command()
def init() -> None:
    """Make the keys of a mesh in ARCHON_HOME, for services that `archon up` does not start.

    `keys.json` is for ARCHON_KEYS of each service and agent; keep `signing-key.json` where tokens are issued.
    `audit-key.pem` is for ARCHON_AUDIT_KEY of the orchestrator; `audit.pub.pem` verifies its seals. `session.key` is
    for ARCHON_SESSION_KEY of each HTTP gateway, `hooks.key` for ARCHON_HOOK_KEY of each orchestrator.
    """
    home = find_home()
    with home.hold():
        is_new = not home.signing_key.exists()
        TokenIssuer(home).prepare()
        prepare_audit_key(home)
        Sealer.from_file(home.session_key)
        Sealer.from_file(home.hook_key)
    print(f"{'The keys are' if is_new else 'There are keys'} in {home.root}. `archon token` issues tokens.")


@token.command()
def show(
    text: Annotated[str, typer.Argument(metavar="TOKEN", help="A token; - for standard input.")],
    as_json: JsonOption = False,
) -> None:
    """Show the claims of a token: who it is for, and until when. It is not verified."""
    claims = claims_of(sys.stdin.read().strip() if text == "-" else text)
    if as_json:
        print_json(claims)
        return
    values = {**claims, "exp": _time(claims.get("exp")), "iat": _time(claims.get("iat"))}
    names = {"sub": "name", "jti": "id", "iss": "mesh", "aud": "for", "iat": "issued", "exp": "expires"}
    rows = [
        (names.get(key, key), ", ".join(value) if isinstance(value, list) else str(value))
        for key, value in values.items()
    ]
    print_table(("field", "value"), rows, folded=(1,))


@token.command()
def revoke(
    text: Annotated[str, typer.Argument(metavar="TOKEN", help="A token or its id, which `archon token show` prints.")],
) -> None:
    """Have the mesh refuse a token from now on; its open streams end within seconds.

    It may be a token of the mesh, or of the OpenID provider of its services.
    """
    from archon.security.openid.caller import token_id_of

    token_id = token_id_of(claims_of(text), text.strip()) if "." in text else text.strip()
    if not token_id:
        raise CliError("the token has no id", code=NOT_FOUND)
    # A part of a token, or another secret, is not to be published with the keys.
    if "." not in text and not _TOKEN_ID.fullmatch(token_id):
        raise CliError(
            "this is neither a token nor the id of one", hint="archon token show TOKEN prints its id", code=USAGE
        )
    issuer = TokenIssuer(find_home())
    _ = issuer.key  # a folder without a mesh has no tokens
    issuer.revoke(token_id)
    print(f"The token {token_id} is revoked.")


@token.command()
def rotate() -> None:
    """Replace the key of the mesh: every token that was issued before is refused.

    Processes of `archon up` get new tokens within seconds; agents with a token of yours need a new one.
    """
    issuer = TokenIssuer(find_home())
    _ = issuer.key  # a folder without a mesh gets none
    issuer.rotate()
    print("The mesh has a new key. Tokens that were issued before are refused.")


def lifetime_of(text: str) -> float:
    """Returns the seconds of a time such as 12h. Raises CliError."""
    match = _LIFETIME.fullmatch(text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST:
        raise CliError(f"invalid time {text!r}: expected 30m, 12h or 7d, at most 366d", code=USAGE)
    return seconds


def _time(seconds: object) -> str:
    if not isinstance(seconds, (int, float)):
        return "-"
    return zoned_time(seconds)
