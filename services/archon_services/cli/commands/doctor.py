"""`archon doctor`: what is wrong, and how to mend it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import FAILED, OK
from archon_services.cli.target.mesh import JsonOption, OrchestratorOption, RegistryOption, checked_address

if TYPE_CHECKING:
    from archon_services.cli.checks.finding import Finding
    from archon_services.local_mesh import MeshState

    Checks = Sequence[tuple[str, Callable[[], list[Finding] | Awaitable[list[Finding]]]]]

EtcdOption = Annotated[
    str, typer.Option("--etcd", envvar="ARCHON_ETCD", metavar="HOST:PORT,...", help="An etcd elsewhere.")
]


def doctor(
    online: Annotated[
        bool, typer.Option("--online", help="Also ask the model's endpoint, which costs nothing.")
    ] = False,
    as_json: JsonOption = False,
    etcd: EtcdOption = "",
    registry: RegistryOption = "",
    orchestrator: OrchestratorOption = "",
) -> None:
    """Say what is wrong here, and how to mend it.

    Looks at Python, the packages, etcd, the folder and its disk, the ports, the mesh that is up, the clock, the model
    and the environment. Ends with exit code 1 where there is a problem; a warning is none. Changes nothing.
    """
    from archon_services.cli.render.output import print_json

    for address in (registry, orchestrator):
        if address:
            checked_address(address)
    findings = asyncio.run(_examine(etcd, registry, orchestrator, online=online))
    if as_json:
        print_json([asdict(one) for one in findings])
    else:
        _print(findings)
    raise typer.Exit(FAILED if any(one.level == "problem" for one in findings) else OK)


async def _examine(etcd: str, registry: str, orchestrator: str, *, online: bool) -> list[Finding]:
    """All checks. One that breaks is a finding itself: the others are told all the same."""
    from archon_services.cli.checks.finding import problem

    findings: list[Finding] = []
    for name, check in _checks(etcd, registry, orchestrator, online=online):
        try:
            found = check()
            findings += found if isinstance(found, list) else await found
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            said = f"this check itself fails: {type(error).__name__}: {error}"
            findings.append(problem(name, said, "Please report it, with what `archon doctor --json` says."))
    return findings


def _checks(etcd: str, registry: str, orchestrator: str, *, online: bool) -> Checks:
    from archon_services.cli.checks import clock, environment, leftovers, machine, mesh, model, packages, running
    from archon_services.cli.checks import etcd as etcds
    from archon_services.local_mesh import Home, live_state

    home = Home.find()
    state: MeshState | None = live_state(home)
    orchestrators = orchestrator or (state.address("orchestrator") if state is not None else "")
    registries = registry or (state.address("registry") if state is not None else "")
    return (
        ("python", packages.check_python),
        ("packages", packages.check_packages),
        ("home", lambda: machine.check_home(home)),
        ("sqlite", lambda: machine.check_sqlite(home)),
        ("ports", lambda: machine.check_ports(state, (registry, orchestrator))),
        ("etcd program", lambda: etcds.check_program(needed=not etcd)),
        ("etcd", lambda: etcds.check_members(etcd, state)),
        ("state", lambda: leftovers.check_state(home)),
        ("mesh", lambda: mesh.check_processes(state, home)),
        ("mesh", lambda: mesh.check_named("registry", registry)),
        ("mesh", lambda: mesh.check_named("orchestrator", orchestrator)),
        ("agents", lambda: mesh.check_agents(registries)),
        ("versions", lambda: running.check_versions(state)),
        ("clock", lambda: clock.check_jump(state)),
        ("clock", lambda: clock.check_events(orchestrators)),
        ("model", lambda: model.check_model(os.environ, online=online)),
        ("environment", lambda: environment.check_environment(os.environ)),
    )


def _print(findings: Sequence[Finding]) -> None:
    from rich.text import Text

    from archon_services.cli.render.output import console, harmless, is_terminal

    out = console() if is_terminal() else None
    styles = {"ok": "green", "warning": "yellow", "problem": "bold red"}
    for one in findings:
        rows = [(f"{one.level:<8} {one.check:<13} ", one.message)]
        if one.hint:
            rows.append((f"{'':<8} {'':<13} ", f"hint: {one.hint}"))
        for number, (head, text) in enumerate(rows):
            if out is None:
                print(head + text)
            else:
                style = "dim" if number else ""
                out.print(Text.assemble((head, styles[one.level]), (harmless(text), style)), soft_wrap=True)
    print(_verdict(findings))


def _verdict(findings: Sequence[Finding]) -> str:
    counts = {level: sum(one.level == level for one in findings) for level in ("problem", "warning")}
    told = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count]
    return f"{' and '.join(told)}." if told else "All is well."
