"""`archon policy`: who may call which RPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from archon.errors import FailedPrecondition
from archon.principal import Kind
from archon.security.policy_file import own_policy, policy_text
from archon_services.cli.errors import FAILED, NOT_FOUND, USAGE, CliError
from archon_services.cli.options import JsonOption
from archon_services.cli.render.output import print_json, print_table

if TYPE_CHECKING:
    from archon.security.policy import Policy

policy = typer.Typer(no_args_is_help=True)


@policy.callback()
def _group() -> None:
    """Show who may call which RPC of the mesh."""


@policy.command()
def show(
    as_json: JsonOption = False,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="As a file for ARCHON_POLICY.")] = False,
) -> None:
    """List the RPCs, and the kinds of callers that may call each: by the file in ARCHON_POLICY, if it is set."""
    policy = _policy()
    if as_yaml:
        print(policy_text(policy), end="")
        return
    if as_json:
        print_json({method: sorted(kinds) for method, kinds in policy.items()})
        return
    rows = [(_short(method), ", ".join(sorted(kinds))) for method, kinds in policy.items()]
    print_table(("RPC", "kinds"), rows, folded=(1,))


@policy.command()
def test(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="A kind of caller, such as viewer.")],
    method: Annotated[str, typer.Argument(metavar="RPC", help="An RPC, such as SubmitRun.")],
) -> None:
    """Say whether callers of a kind may call an RPC; exit code 1 if they may not."""
    if kind not in set(Kind):
        raise CliError(f"unknown kind {kind!r}: expected one of {', '.join(Kind)}", code=USAGE)
    matching = {name: kinds for name, kinds in _policy().items() if method in _names(name)}
    if not matching:
        raise CliError(f"there is no RPC {method!r}", hint="`archon policy show` lists them.", code=NOT_FOUND)
    for name, kinds in matching.items():
        print(f"{kind} {'may' if kind in kinds else 'may not'} call {_short(name)}")
    if not all(kind in kinds for kinds in matching.values()):
        raise typer.Exit(FAILED)


def _policy() -> Policy:
    try:
        return own_policy()
    except FailedPrecondition as error:
        raise CliError(str(error), code=USAGE) from None


def _names(method: str) -> tuple[str, str, str]:
    short = _short(method)
    return method, short, short.partition("/")[2]


def _short(method: str) -> str:
    """The service and the method, without the package: OrchestratorService/SubmitRun."""
    service, _, name = method.rpartition("/")
    return f"{service.rpartition('.')[2]}/{name}"
