"""The console script `archon`: calls a command and reports its error."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout, suppress
from enum import StrEnum
from io import StringIO
from typing import Annotated, Final

import typer

from archon import context as call_context
from archon.process_input import clean_environment, open_standard_streams
from archon_services.cli.command_table import CommandTable
from archon_services.cli.contexts import RESOLUTION
from archon_services.cli.errors import BROKEN_PIPE, EXIT_CODES, flush_output, report_error
from archon_services.cli.identity import present_tokens_of_contexts
from archon_services.cli.login.threads import close_logins
from archon_services.cli.output_encoding import escape_what_streams_lack

NAME: Final = "archon"

app = typer.Typer(
    name=NAME,
    cls=CommandTable,
    help="A mesh of agents, in which each role is a gRPC service.",
    epilog=f"{RESOLUTION}\n\n{EXIT_CODES}",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Shell(StrEnum):
    """Shells with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def _print_version(requested: bool) -> None:
    if not requested:
        return
    from importlib.metadata import PackageNotFoundError, version  # 30 ms

    try:
        print(f"archon {version('archon-mesh')}")
    except PackageNotFoundError:
        print("archon (not installed)")
    raise typer.Exit


def _print_completion(shell: Shell | None) -> None:
    if shell is None:
        return
    os.environ[f"_{NAME.upper()}_COMPLETE"] = f"source_{shell}"  # requests the script from Typer
    with redirect_stdout(StringIO()) as script, suppress(SystemExit):
        app(args=[], prog_name=NAME, standalone_mode=False)
    print(script.getvalue().strip())  # zsh requires its `#compdef` in the first line
    raise typer.Exit


@app.callback()
def _options(
    call: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    __: Annotated[
        Shell | None,
        typer.Option(
            "--completion",
            callback=_print_completion,
            is_eager=True,
            help="Print the completion script for a shell and exit.",
        ),
    ] = None,
) -> None:
    if call.invoked_subcommand is None:
        print(call.get_help())


def main() -> None:
    """Runs a command and exits with its code. Prints tracebacks only if ARCHON_DEBUG is set.

    Runs continue the trace in TRACEPARENT and TRACESTATE, which OpenTelemetry sets for child processes.
    """
    open_standard_streams()
    escape_what_streams_lack()
    clean_environment()
    present_tokens_of_contexts()
    sys.argv[1:] = [argument.rstrip("\r") for argument in sys.argv[1:]]  # the last one, in a script with CRLF
    traceparent, tracestate = os.environ.get("TRACEPARENT", ""), os.environ.get("TRACESTATE", "")
    call_context.enter(call_context.CallContext(traceparent=traceparent, tracestate=tracestate))
    try:
        code = app(prog_name=NAME, standalone_mode=False)
    except SystemExit as error:  # by Typer and Rich, if they meet a broken pipe first
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        code = BROKEN_PIPE
    except BrokenPipeError:
        code = BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every error ends as a message and an exit code
        code = report_error(error)
    close_logins()
    sys.exit(flush_output(code))
