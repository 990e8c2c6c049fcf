"""`archon context`: names of meshes, and which of them is in use."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from archon_services.cli.contexts import Context, Contexts, contexts_file, read_contexts, write_contexts
from archon_services.cli.errors import NOT_FOUND, USAGE, CliError
from archon_services.cli.login.stored import remove_login
from archon_services.cli.options import JsonOption
from archon_services.cli.render.output import print_json, print_table
from archon_services.cli.target.mesh import checked_address

context = typer.Typer(no_args_is_help=True)

_HEADERS: Final = (
    "context",
    "in use",
    "orchestrator",
    "registry",
    "memory",
    "home",
    "token file",
    "issuer",
    "client id",
)
_FOLDED: Final = (5, 6, 7, 8)
_HINT: Final = "`archon context list` lists the contexts, and `archon context set` adds one."

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the context.")]


@context.callback()
def _group() -> None:
    """Name meshes, and choose the one that commands use."""


@context.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the contexts."""
    contexts = read_contexts()
    if as_json:
        print_json(asdict(contexts))
    elif not contexts.contexts:
        print(f"There are no contexts in {contexts_file()}.")
    else:
        rows = [
            (name, "*" if name == contexts.current else "", *(value or "-" for value in asdict(values).values()))
            for name, values in sorted(contexts.contexts.items())
        ]
        print_table(_HEADERS, rows, folded=_FOLDED)


@context.command("current")
def current() -> None:
    """Print the name of the context in use."""
    contexts = read_contexts()
    if not contexts.current:
        raise CliError("no context is in use", hint="`archon context use NAME` uses one.", code=NOT_FOUND)
    print(contexts.current)


@context.command("use")
def use(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The name of the context.")] = "",
    none: Annotated[bool, typer.Option("--none", help="Use no context.")] = False,
) -> None:
    """Use a context from now on, in every terminal."""
    if bool(name) == none:
        raise CliError("expected either a name or --none", code=USAGE)
    contexts = read_contexts()
    if name:
        _require(contexts, name)
    write_contexts(replace(contexts, current=name))
    print(f"The context {name} is in use." if name else "No context is in use.")
    if name and os.environ.get("ARCHON_HOME"):
        print("ARCHON_HOME is set in this terminal and comes before it.")


@context.command("set")
def set_(
    name: NameArgument,
    orchestrator: Annotated[str, typer.Option(metavar="HOST:PORT", help="The orchestrator.")] = "",
    registry: Annotated[str, typer.Option(metavar="HOST:PORT", help="The registry.")] = "",
    memory: Annotated[str, typer.Option(metavar="HOST:PORT", help="The memory service.")] = "",
    home: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder (ARCHON_HOME) of a mesh on this machine.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with a token, which is presented to these services.")
    ] = None,
    issuer: Annotated[
        str, typer.Option(metavar="URL", help="The OpenID provider of `archon login`; https, or on this machine.")
    ] = "",
    client_id: Annotated[str, typer.Option(metavar="ID", help="The client of `archon login` at its provider.")] = "",
) -> None:
    """Add a context, or change the given values of one."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise CliError(f"invalid name {name!r}", hint="Use letters, digits, dots and dashes.", code=USAGE)
    addresses = {"orchestrator": orchestrator, "registry": registry, "memory": memory}
    values = {service: checked_address(address) for service, address in addresses.items() if address}
    if home is not None:
        values["home"] = str(home.absolute())
    if token_file is not None:
        values["token_file"] = str(token_file.absolute())
    if issuer:
        values["issuer"] = checked_issuer(issuer)
    if client_id:
        values["client_id"] = client_id
    if not values:
        raise CliError("missing address or folder", hint="`archon context set --help` lists the options.", code=USAGE)
    contexts = read_contexts()
    changed = replace(contexts.contexts.get(name, Context()), **values)
    write_contexts(replace(contexts, contexts={**contexts.contexts, name: changed}))
    print(f"The context {name} is set. `archon context use {name}` uses it.")


@context.command("delete")
def delete(name: NameArgument) -> None:
    """Delete a context. The mesh is not changed."""
    contexts = read_contexts()
    _require(contexts, name)
    left = {other: values for other, values in contexts.contexts.items() if other != name}
    write_contexts(Contexts(left, "" if contexts.current == name else contexts.current))
    remove_login(name)
    print(f"The context {name} is deleted.")


def checked_issuer(issuer: str) -> str:
    """Returns the issuer unchanged. Raises CliError if it is no URL that may be asked."""
    from archon.errors import InvalidArgument
    from archon.security.openid.http import checked_url

    try:
        return checked_url(issuer)
    except InvalidArgument as error:
        raise CliError(f"invalid issuer: {error}", code=USAGE) from None


def _require(contexts: Contexts, name: str) -> None:
    if name not in contexts.contexts:
        names = ", ".join(sorted(contexts.contexts))
        hint = f"The contexts are {names}." if names else _HINT
        raise CliError(f"there is no context {name!r}", hint=hint, code=NOT_FOUND)
