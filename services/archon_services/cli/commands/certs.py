"""`archon certs`: certificates of the members of a mesh, for connections between machines."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from archon_services.cli.errors import FAILED, USAGE, CliError
from archon_services.cli.options import JsonOption

certs = typer.Typer(no_args_is_help=True)

_MESH: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_MEMBER: Final = re.compile(r"(service|agent|viewer|auditor|operator|admin)/([A-Za-z0-9][A-Za-z0-9._@-]{0,62})")

AuthorityOption = Annotated[
    Path, typer.Option(metavar="DIR", help="The folder of the authority, with its private key.")
]


@certs.callback()
def _group() -> None:
    """Issue certificates for mutual TLS: one for each service, agent and person."""


@certs.command()
def init(
    mesh: Annotated[str, typer.Argument(metavar="MESH", help="The name of the mesh, such as prod.example.com.")],
    authority: AuthorityOption = Path("authority"),
) -> None:
    """Make the authority of a mesh, which issues the certificates of its members."""
    from archon_services.local_mesh.authority import Authority

    if not _MESH.fullmatch(mesh):
        raise CliError(f"invalid name of a mesh {mesh!r}", hint="Use the form of a name of DNS.", code=USAGE)
    if (authority / "ca.key").exists():
        raise CliError(f"there is an authority in {authority} already", code=USAGE)
    Authority.create(mesh, now=_now()).store(authority)
    print(f"The authority of the mesh {mesh} is in {authority}. Keep ca.key where certificates are issued.")


@certs.command()
def issue(
    member: Annotated[
        str,
        typer.Argument(
            metavar="KIND/NAME", help="Who it is for: service/registry, agent/reviewer, operator/alice, admin/bob."
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write tls.crt, tls.key and ca.crt to.")],
    authority: AuthorityOption = Path("authority"),
    tenant: Annotated[str, typer.Option(metavar="NAME", help="The tenant.")] = "default",
    days: Annotated[float, typer.Option(metavar="DAYS", help="How long it is valid.")] = 90.0,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A further name of DNS, or an IP address. Repeatable."),
    ] = None,
) -> None:
    """Issue the certificate of a member; a process uses it with ARCHON_TLS=DIR.

    Again for the same folder, it renews the certificate: processes use it from their next connection on.
    """
    from archon.principal import TENANT, Kind
    from archon.security.spiffe import SpiffeId
    from archon_services.local_mesh.authority import Authority

    match = _MEMBER.fullmatch(member)
    if match is None:
        hint = "The kinds are service, agent, viewer, auditor, operator and admin."
        raise CliError(f"invalid member {member!r}: expected KIND/NAME", hint=hint, code=USAGE)
    if not TENANT.fullmatch(tenant):
        raise CliError(f"invalid tenant {tenant!r}", code=USAGE)
    if not 0 < days <= 3650:
        raise CliError(f"invalid number of days {days:g}: expected up to 3650", code=USAGE)
    issuer = Authority.load(authority)
    identity = SpiffeId(issuer.mesh, tenant, Kind(match[1]), match[2])
    issued = issuer.issue(folder, identity, now=_now(), days=days, names=tuple(name or ()))
    print(f"{identity} is in {folder}, valid until {issued.not_valid_after_utc:%Y-%m-%d %H:%M} UTC.")


@certs.command()
def renew(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of certificates.")],
    authority: AuthorityOption = Path("authority"),
    days: Annotated[float, typer.Option(metavar="DAYS", help="How long they are valid.")] = 90.0,
    left: Annotated[
        float, typer.Option("--left", metavar="DAYS", help="Renew only those with less time left; 0: all.")
    ] = 0.0,
) -> None:
    """Renew certificates: the same members, with new keys."""
    from archon.security.certificates import CertificateFolder
    from archon_services.local_mesh.authority import Authority

    issuer = Authority.load(authority)
    for folder in folders:
        own = CertificateFolder(folder).read()
        if left and own.expires - _now().timestamp() > left * 86_400:
            print(f"{own.identity} in {folder} has more than {left:g} days left.")
            continue
        issued = issuer.issue(folder, own.identity, now=_now(), days=days, names=own.other_names)
        print(f"{own.identity} is in {folder}, valid until {issued.not_valid_after_utc:%Y-%m-%d %H:%M} UTC.")


@certs.command()
def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a certificate.")],
    as_json: JsonOption = False,
) -> None:
    """Show whose certificate a folder has, and until when it is valid; exit code 1 if it is not valid now."""
    from archon.security.certificates import CertificateFolder
    from archon_services.cli.render.output import print_json, print_table

    own = CertificateFolder(folder).read()
    left = own.expires - _now().timestamp()
    until = datetime.datetime.fromtimestamp(own.expires, datetime.UTC)
    fields = {
        "member": str(own.identity),
        "name of DNS": own.identity.dns_name,
        "other names": ", ".join(own.other_names) or "-",
        "expires": f"{until:%Y-%m-%d %H:%M} UTC",
        "left": f"{left / 86_400:.1f} days" if left > 0 else "expired",
    }
    if as_json:
        print_json(fields)
    else:
        print_table(("field", "value"), list(fields.items()), folded=(1,))
    if left <= 0:
        raise typer.Exit(FAILED)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
