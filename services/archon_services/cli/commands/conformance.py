"""`archon conformance`: holds an SDK, or an agent over stubs, to the contract."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from archon_services.cli.errors import FAILED
from archon_services.cli.options import JsonOption


class Mode(StrEnum):
    """The modes of a subject."""

    AGENT = "agent"
    CLIENT = "client"


class Transport(StrEnum):
    """How an agent and its orchestrators reach each other."""

    DIALLED = "dialled"
    ATTACHED = "attached"


class Security(StrEnum):
    """Whether connections are encrypted."""

    PLAIN = "plain"
    MTLS = "mtls"


def conformance(
    subject: Annotated[
        str,
        typer.Option("--subject", metavar="COMMAND", help="Command that starts the subject; its mode is appended."),
    ] = "",
    case: Annotated[
        list[str] | None,
        typer.Option("--case", metavar="NAME", help="Run this scenario, area, case or pattern only; may be repeated."),
    ] = None,
    mode: Annotated[Mode | None, typer.Option("--mode", help="Run the scenarios of this mode only.")] = None,
    transport: Annotated[
        Transport | None, typer.Option("--transport", help="Run the agents' scenarios over this transport only.")
    ] = None,
    security: Annotated[
        Security | None, typer.Option("--security", help="Run the scenarios in clear text, or with mutual TLS, only.")
    ] = None,
    expected: Annotated[
        Path | None,
        typer.Option(
            "--expected", metavar="FILE", help="YAML list of scenarios that fail; one that passes is a failure."
        ),
    ] = None,
    pace: Annotated[
        float, typer.Option("--pace", metavar="N", min=0.1, help="Multiply all times within which things must happen.")
    ] = 1.0,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write a report as JUnit's XML to this file.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the cases, and run none.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print each case when it has ended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Hold an SDK, or an agent over stubs, to the contract: about 1,200 cases.

    \b
    archon conformance --subject ./my-agent
    archon conformance --subject ./my-agent --mode agent --transport dialled --security plain
    archon conformance --subject ./my-agent --case adoption --case results/text --verbose

    The subject is a small program that executes the steps of a scenario; the command plays its orchestrators, its
    registry and its memory service. Exit code 0 if everything was as expected.
    """
    from archon.conformance import Options, chosen, run_and_print
    from archon_services.cli.errors import USAGE, CliError

    options = Options(
        subject=subject,
        names=case or (),
        mode=mode or "",
        transport=transport or "",
        security=security or "",
        expected=expected,
        pace=pace,
        verbose=verbose,
    )
    if list_only:
        print("\n".join(f"{each.name}: {each.scenario.does}" for each in chosen(options)))
        return
    if not subject:
        raise CliError("name the command that starts the subject with --subject", code=USAGE)
    if run_and_print(options, as_json=as_json, junit=junit):
        raise typer.Exit(FAILED)
