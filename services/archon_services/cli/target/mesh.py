"""Resolves the mesh of a command: explicit addresses first, then the context in use, then the mesh that is running in
ARCHON_HOME."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from archon import errors
from archon_services.cli.contexts import active_context, find_home
from archon_services.cli.errors import START_HINT, UNREACHABLE, USAGE, CliError
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.state import MeshState, live_state

if TYPE_CHECKING:
    from archon.client import Client

T = TypeVar("T")

ADDRESS_HINT: Final = "Check that it is running and that the address is right."

_START_PATIENCE: Final = 60.0
"""Seconds to wait for a mesh that another process is starting."""


@dataclass(frozen=True, slots=True)
class Target:
    """Addresses of the services that commands call (host:port), empty if unknown. `traces` and `otlp` are the addresses
    of the mesh's Jaeger: for queries, and for spans."""

    orchestrator: str
    memory: str = ""
    traces: str = ""
    otlp: str = ""


def target_of(state: MeshState) -> Target:
    """Returns the addresses of a mesh on this machine. Raises CliError if it runs no orchestrator."""
    address = state.address("orchestrator")
    if not address:
        raise CliError(
            f"the mesh in {state.home} has no orchestrator", hint="Start the mesh without --only.", code=UNREACHABLE
        )
    return Target(address, state.address("memory"), state.traces, state.otlp)


def target_or_none(orchestrator: str, home: Home) -> Target | None:
    """Returns the explicit orchestrator if there is one, else the one of the context in use, else the mesh in `home`;
    None if no mesh is running."""
    if orchestrator:
        return Target(checked_address(orchestrator))
    if address := _context_address("orchestrator"):
        return Target(address, _context_address("memory", required=False))
    state = _ready_state(home)
    return None if state is None else target_of(state)


def find_target(orchestrator: str) -> Target:
    """As `target_or_none` for ARCHON_HOME. Raises CliError if no mesh is running."""
    home = find_home()
    target = target_or_none(orchestrator, home)
    if target is None:
        raise _no_mesh(home)
    return target


def find_orchestrator(orchestrator: str) -> str:
    """Returns the address of the orchestrator. Raises CliError if no mesh is running."""
    return find_target(orchestrator).orchestrator


def find_registry(registry: str) -> str:
    """Returns the address of the registry. Raises CliError if no mesh is running."""
    if address := checked_address(registry) if registry else _context_address("registry"):
        return address
    return _running()[1].registry


def find_memory(memory: str) -> str:
    """Returns the address of the memory service. Raises CliError if no mesh is running, or it runs none."""
    if address := checked_address(memory) if memory else _context_address("memory"):
        return address
    _, state = _running()
    address = state.address("memory")
    if not address:
        raise CliError(
            f"the mesh in {state.home} has no memory service", hint="Start the mesh without --only.", code=UNREACHABLE
        )
    return address


def memory_beside(registry: str) -> str:
    """Returns the memory service of the mesh with this registry, as the context in use or the mesh in ARCHON_HOME
    tells; empty if neither does."""
    return _beside(registry, "memory")


def orchestrator_beside(registry: str) -> str:
    """Returns the orchestrator of the mesh with this registry: ARCHON_ORCHESTRATOR, else as `memory_beside`."""
    address = os.environ.get("ARCHON_ORCHESTRATOR", "")
    return checked_address(address) if address else _beside(registry, "orchestrator")


def _beside(registry: str, service: str) -> str:
    if registry == _context_address("registry", required=False):
        return _context_address(service, required=False)
    state = live_state(find_home())
    return state.address(service) if state is not None and state.registry == registry else ""


def running_home() -> Home:
    """Returns ARCHON_HOME once its mesh is ready. Raises CliError if none is running there."""
    return _running()[0]


def orchestrator_flag(orchestrator: str) -> str:
    """Returns the option to append to a suggested command so that it reaches the same orchestrator."""
    return f" --orchestrator {shlex.quote(orchestrator)}" if orchestrator else ""


@contextmanager
def connecting(service: str, address: str) -> Iterator[None]:
    """Replaces transport errors by a CliError that names the service and its address."""
    try:
        yield
    except (errors.Unavailable, errors.DeadlineExceeded) as error:
        if error.reason not in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            raise
        active = active_context()
        named = f" The context {active[0]} names it." if active and address in asdict(active[1]).values() else ""
        raise CliError(
            f"cannot reach the {service} at {address}", hint=ADDRESS_HINT + named, code=UNREACHABLE
        ) from error


@asynccontextmanager
async def orchestrator_client(address: str) -> AsyncIterator[Client]:
    """A client of an orchestrator during the block, in which transport errors are replaced as by `connecting`."""
    from archon.client import Client

    with connecting("orchestrator", address):
        async with Client(address) as client:
            yield client


def call_orchestrator(orchestrator: str, call: Callable[[Client], Awaitable[T]]) -> T:
    """Returns the result of a call of the orchestrator at an address, by default the one in use. Raises the errors of
    the call, and CliError if there is no orchestrator."""
    address = find_orchestrator(orchestrator)

    async def run() -> T:
        async with orchestrator_client(address) as client:
            return await call(client)

    return asyncio.run(run())


def checked_address(address: str) -> str:
    """Returns the address unchanged. Raises CliError if it is not HOST:PORT."""
    host, _, port = address.rpartition(":")
    bare = ":" in host and not (host.startswith("[") and host.endswith("]"))  # the port may be a part of the address
    if not host or bare or not port.isdecimal() or not 1 <= int(port) <= 65535:
        example = "[::1]:7100" if bare else "127.0.0.1:7100"
        raise CliError(f"invalid address {address!r}: expected host:port, such as {example}", code=USAGE)
    return address


def _context_address(service: str, *, required: bool = True) -> str:
    """Returns the address in the context in use; empty without a context, or if it names a folder instead. Raises
    CliError if it names neither and `required` is set."""
    active = active_context()
    if active is None:
        return ""
    name, context = active
    address: str = getattr(context, service)
    if required and not address and not context.home:
        hint = f"archon context set {name} --{service} HOST:PORT"
        raise CliError(f"the context {name} has no address of the {service}", hint=hint, code=UNREACHABLE)
    return checked_address(address) if address else ""


def _running() -> tuple[Home, MeshState]:
    home = find_home()
    state = _ready_state(home)
    if state is None:
        raise _no_mesh(home)
    return home, state


def _no_mesh(home: Home) -> CliError:
    return CliError(f"no mesh is running in {home.root}", hint=START_HINT, code=UNREACHABLE)


def _ready_state(home: Home) -> MeshState | None:
    """Waits for a mesh that is starting; None if no mesh runs in `home`."""
    end = time.monotonic() + _START_PATIENCE
    while True:
        state = live_state(home)
        if state is not None and state.phase in ("ready", "failed"):
            return state if state.phase == "ready" else None
        if not home.holder() or time.monotonic() > end:
            return None
        time.sleep(0.05)
