"""`archon`: the commands, and how they fail."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from archon_services.cli import agents, demo, down, graph, prompts, run, runs, up
from archon_services.cli.errors import EXIT_CODES, report

app = typer.Typer(
    name="archon",
    help="A mesh of agents: every role its own gRPC service.",
    epilog=EXIT_CODES,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(up.up)
app.command()(down.down)
app.command()(run.run)
app.command()(demo.demo)
app.command()(agents.agents)
app.command()(graph.graph)
app.command()(runs.runs)
app.command()(prompts.prompts)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"archon {version('archon-mesh')}")
        except PackageNotFoundError:
            print("archon, not installed")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """The console script. Never shows a traceback, unless ARCHON_DEBUG is set."""
    try:
        code = app(standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last stop: a sentence and an exit code
        code = report(error)
    sys.exit(code)
