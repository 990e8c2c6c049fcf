"""`archon doctor`: finds problems of the installation and the mesh."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from archon.plain_text import counted
from archon_services.cli.checks.finding import Finding, problem
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import FAILED, OK
from archon_services.cli.options import JsonOption, OrchestratorOption, RegistryOption
from archon_services.cli.render.output import console, is_terminal, print_json
from archon_services.cli.target.mesh import checked_address
from archon_services.cli.wrapping import wrapped
from archon_services.local_mesh import MeshState, live_state
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    Checks = Sequence[tuple[str, Callable[[], list[Finding] | Awaitable[list[Finding]]]]]

EtcdOption = Annotated[
    str,
    typer.Option(
        "--etcd", envvar="ARCHON_ETCD", metavar="HOST:PORT,...", help="Members of your own etcd, to check them."
    ),
]


def doctor(
    online: Annotated[
        bool, typer.Option("--online", help="Also contact the endpoint of the model, without calling the model.")
    ] = False,
    as_json: JsonOption = False,
    etcd: EtcdOption = "",
    registry: RegistryOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Find problems of the installation and the mesh.

    Checks Python, packages, etcd, the folder and its disk, ports, the running mesh, the clock, the model and the
    environment. Exits with 1 if there is a problem; warnings alone exit with 0. Changes nothing.
    """
    for address in (registry, orchestrator):
        if address:
            checked_address(address)
    findings = asyncio.run(_run_checks(etcd, registry, orchestrator, online=online))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        _print(findings)
    raise typer.Exit(FAILED if any(finding.level == "problem" for finding in findings) else OK)


async def _run_checks(etcd: str, registry: str, orchestrator: str, *, online: bool) -> list[Finding]:
    """Runs all checks. One that raises becomes a finding, so that the others still run."""
    findings: list[Finding] = []
    for name, check in _checks(etcd, registry, orchestrator, online=online):
        try:
            result = check()
            findings += result if isinstance(result, list) else await result
        except Exception as error:  # noqa: BLE001 - any failure of a check is a finding
            message = f"the check itself failed: {type(error).__name__}: {error}"
            findings.append(problem(name, message, "Please report this with the output of `archon doctor --json`."))
    return findings


def _checks(etcd: str, registry: str, orchestrator: str, *, online: bool) -> Checks:
    from archon_services.cli.checks import (
        clock,
        database,
        environment,
        machine,
        mesh,
        model,
        packages,
        state_file,
        versions,
    )
    from archon_services.cli.checks import etcd as etcd_checks

    home = find_home()
    state: MeshState | None = live_state(home)
    any_orchestrator = orchestrator or (state.address("orchestrator") if state is not None else "")
    any_registry = registry or (state.address("registry") if state is not None else "")
    return (
        ("python", packages.check_python),
        ("packages", packages.check_packages),
        ("home", lambda: machine.check_home(home)),
        ("sqlite", lambda: machine.check_sqlite(home)),
        ("ports", lambda: machine.check_ports(state, (registry, orchestrator))),
        ("etcd program", lambda: etcd_checks.check_program(needed=not etcd)),
        ("etcd", lambda: etcd_checks.check_members(etcd, state)),
        ("state", lambda: state_file.check_state(home)),
        ("mesh", lambda: mesh.check_processes(state, home)),
        ("mesh", lambda: mesh.check_service("registry", registry)),
        ("mesh", lambda: mesh.check_service("orchestrator", orchestrator)),
        ("agents", lambda: mesh.check_agents(any_registry)),
        ("versions", lambda: versions.check_versions(state)),
        ("database", lambda: database.check_databases(os.environ, running=state is not None)),
        ("clock", lambda: clock.check_jump(state)),
        ("clock", lambda: clock.check_events(any_orchestrator)),
        ("model", lambda: model.check_models(state, os.environ, online=online)),
        ("environment", lambda: environment.check_environment(os.environ)),
        ("proxy", lambda: environment.check_proxies(os.environ)),
    )


def _print(findings: Sequence[Finding]) -> None:
    from rich.text import Text

    out = console() if is_terminal() else None
    styles = {"ok": "green", "warning": "yellow", "problem": "bold red"}
    for finding in findings:
        rows = [(f"{finding.level:<8} {finding.check:<13} ", finding.message)]
        if finding.hint:
            rows.append((f"{'':<8} {'':<13} ", f"hint: {finding.hint}"))
        for number, (head, text) in enumerate(rows):
            if out is None:
                print(head + text)
            else:
                style = "dim" if number else ""
                first, *rest = wrapped(head + strip_controls(text), hang=" " * len(head)).split("\n")
                tail = "\n".join([first[len(head) :], *rest])
                out.print(Text.assemble((head, styles[finding.level]), (tail, style)), soft_wrap=True)
    print(_verdict(findings))


def _verdict(findings: Sequence[Finding]) -> str:
    counts = {level: sum(finding.level == level for finding in findings) for level in ("problem", "warning")}
    texts = [counted(count, level) for level, count in counts.items() if count]
    return f"{' and '.join(texts)}." if texts else "No problems found."
