"""A mesh in one process, for commands to which the processes of `archon up` do not matter: it starts in a tenth of the
time. `python -m tests.e2e.small_mesh ROLE ...` serves it in ARCHON_HOME, where commands find it, until a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path

from archon.principal import Kind, Principal
from archon.security import credentials, keys
from archon.server import signalled
from archon_mesh.declared import load_agent
from archon_mesh.node import agent_from_role
from archon_mesh.workflows.role import workflow_server
from archon_services.agents.app import agent_app
from archon_services.agents.roles.catalogue import WORKFLOW_ROLE, find_role
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.settings import load_or_exit
from archon_services.local_mesh import Home, MeshState, ProcessState
from archon_services.local_mesh.state import write_state
from archon_services.local_mesh.tokens import TokenIssuer
from archon_services.memory.app import memory_app
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.fork_server import fork_server
from tests.fixtures.waiting import wait_until

PIPELINE = ("requirements", "designer", "implementer")
_LOCAL = ("--host", "127.0.0.1", "--port", "0")


@contextmanager
def small_mesh(folder: Path, *roles: str, **environment: str) -> Iterator[Terminal]:
    """Runs a mesh with these roles in a process of its own during the block; yields a terminal for it. `environment`
    is that of the mesh and of the commands."""
    with _mesh(folder, roles, environment, signal.SIGTERM) as terminal:
        yield terminal


@contextmanager
def killed_mesh(folder: Path, *roles: str) -> Iterator[Terminal]:
    """As `small_mesh`; the process is killed at the end of the block."""
    with _mesh(folder, roles, {}, signal.SIGKILL) as terminal:
        yield terminal


@contextmanager
def _mesh(
    folder: Path, roles: Sequence[str], environment: Mapping[str, str], end: signal.Signals
) -> Iterator[Terminal]:
    terminal = Terminal(folder / "home", **environment)
    log = folder / "small-mesh.log"
    home = Home(terminal.home)
    home.state_file.unlink(missing_ok=True)  # of a process that was killed
    process = fork_server.fork(__name__, roles, terminal.environment, log)

    def ready() -> bool:
        assert process.poll() is None, log.read_text()[-2000:]
        return home.state_file.exists()

    try:
        wait_until(ready, PATIENCE)
        yield terminal
    finally:
        process.send_signal(end)
        process.wait(PATIENCE)


async def _serve(home: Home, roles: Sequence[str]) -> None:
    stop = signalled()
    async with AsyncExitStack() as stack:
        addresses: dict[str, str] = {}

        async def run(name: str, app: AbstractAsyncContextManager[str]) -> str:
            addresses[name] = await stack.enter_async_context(app)
            return addresses[name]

        registry = await run("registry", registry_app(load_or_exit(RegistrySettings, [*_LOCAL, "--etcd", "memory"])))
        at = [*_LOCAL, "--registry", registry]
        memory = await run("memory", memory_app(load_or_exit(MemorySettings, [*at, "--db", ":memory:"])))
        at += ["--memory", memory]
        journal = ("--journal", str(home.journal))
        await run("orchestrator", orchestrator_app(load_or_exit(OrchestratorSettings, [*at, *journal])))
        for name in roles:
            settings = load_or_exit(AgentServiceSettings, at)
            if name == WORKFLOW_ROLE:
                server = workflow_server(settings.agent_settings())
                stack.push_async_callback(server.stop, settings.drain)
                addresses[name] = await server.start()
                continue
            role = find_role(name)
            if isinstance(role, str):
                declared = load_agent(role, model=settings.model, overrides=settings.overrides())
                await run(name, agent_app(declared.role, declared.agent, settings))
            else:
                await run(name, agent_app(role, agent_from_role(role, settings.model), settings))
        processes = [
            ProcessState(name, "agent" if name in roles else "service", "healthy", os.getpid(), address)
            for name, address in addresses.items()
        ]
        write_state(home, MeshState("ready", os.getpid(), str(home.root), tuple(processes), registry=registry))
        await stop.wait()
        home.state_file.unlink()


def main() -> int:
    """Serves until a signal."""
    home = Home.find()
    with home.hold():
        issuer = TokenIssuer(home)
        issuer.prepare()
        issuer.issue([("small-mesh", Principal(Kind.SERVICE, "small-mesh"))])
        os.environ[keys.VARIABLE] = str(home.folder.keys_file)
        os.environ[credentials.TOKEN_FILE] = str(home.process_token("small-mesh"))
        asyncio.run(_serve(home, sys.argv[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
