"""Which mesh a command talks to: the one it is told, else the one that is up in ARCHON_HOME."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from archon import errors
from archon_services.cli.errors import START_HINT, UNREACHABLE, USAGE, CliError
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.state import MeshState, live_state

_PATIENCE = 60.0  # for a mesh that another process is starting

OrchestratorOption = Annotated[
    str,
    typer.Option(
        "--orchestrator", envvar="ARCHON_ORCHESTRATOR", metavar="HOST:PORT", help="An orchestrator elsewhere."
    ),
]
RegistryOption = Annotated[
    str,
    typer.Option("--registry", envvar="ARCHON_REGISTRY", metavar="HOST:PORT", help="A registry elsewhere."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class Target:
    """Where runs go; `memory` empty where that isn't known."""

    orchestrator: str
    memory: str = ""


def target_of(state: MeshState) -> Target:
    """A mesh on this machine. Raises CliError where it has no orchestrator."""
    address = state.address("orchestrator")
    if not address:
        raise CliError(
            f"the mesh in {state.home} has no orchestrator", hint="Start it without --only.", code=UNREACHABLE
        )
    return Target(address, state.address("memory"))


def target_or_none(given: str, home: Home) -> Target | None:
    """The orchestrator that was named, else that of the mesh that is up here, if one is."""
    if given:
        return Target(checked_address(given))
    state = _ready_state(home)
    return None if state is None else target_of(state)


def find_target(given: str) -> Target:
    """Where runs go. Raises CliError where there is no mesh."""
    home = Home.find()
    target = target_or_none(given, home)
    if target is None:
        raise CliError(f"no mesh is up in {home.root}", hint=START_HINT, code=UNREACHABLE)
    return target


def find_orchestrator(given: str) -> str:
    """Its address. Raises CliError where there is none."""
    return find_target(given).orchestrator


def reach_of(given: str) -> str:
    """What must be added to a command that is to find the same orchestrator from elsewhere."""
    return f" --orchestrator {shlex.quote(given)}" if given else ""


def find_registry(given: str) -> str:
    """Its address. Raises CliError where there is none."""
    if given:
        return checked_address(given)
    home = Home.find()
    state = _ready_state(home)
    if state is None:
        raise CliError(f"no mesh is up in {home.root}", hint=START_HINT, code=UNREACHABLE)
    return state.registry


@contextmanager
def reaching(what: str, address: str) -> Iterator[None]:
    """Says which service at which address can't be reached, in place of what gRPC says."""
    try:
        yield
    except (errors.Unavailable, errors.DeadlineExceeded) as error:
        if error.reason not in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            raise
        raise CliError(
            f"the {what} at {address} can't be reached", hint="Is it up, and is the address right?", code=UNREACHABLE
        ) from error


def checked_address(address: str) -> str:
    """The address as it is. Raises CliError where it is none."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise CliError(f"{address!r} is no address: host:port is needed, as in 127.0.0.1:7100", code=USAGE)
    return address


def _ready_state(home: Home) -> MeshState | None:
    """What is up here; waits for a mesh that is just being started."""
    end = time.monotonic() + _PATIENCE
    while True:
        state = live_state(home)
        if state is not None and state.phase in ("ready", "failed"):
            return state if state.phase == "ready" else None
        if not home.holder() or time.monotonic() > end:
            return None
        time.sleep(0.05)
