"""`archon serve`: serves an agent from a YAML or Python file, another mesh, or an A2A agent, as a role of the mesh."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from archon.loopback import loopback_host
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.options import AgentModelOption, RegistryOption
from archon_services.cli.target.mesh import checked_address, find_registry, memory_beside, orchestrator_beside

MEMORY: Final = "ARCHON_MEMORY"


def serve(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="The YAML file of the agent, or a Python program."),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE",
            help="A reference role instead of a file: researcher, writer, editor, coder, validator, arbiter or "
            "planner. With --mesh: a role of the other mesh that may take part, by default all. Repeatable.",
        ),
    ] = None,
    mesh: Annotated[
        str,
        typer.Option(
            metavar="CONTEXT", help="Another mesh instead of a file: each task is a run of the mesh of this context."
        ),
    ] = "",
    a2a: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="An A2A agent instead of a file: each task is one of the agent with the card at URL. "
            "ARCHON_A2A_TOKEN has the token that it wants.",
        ),
    ] = "",
    a2a_keys: Annotated[
        str,
        typer.Option(metavar="FILE", help="With --a2a: a JSON Web Key Set, by one of which its card must be signed."),
    ] = "",
    name: Annotated[
        str,
        typer.Option(
            metavar="ROLE", help="With --mesh or --a2a: the name of the role; by default that of the context or agent."
        ),
    ] = "",
    description: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="With --mesh or --a2a: the description; by default it has the roles there, or the card's.",
        ),
    ] = "",
    capability: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="With --mesh or --a2a: a capability of the role. Repeatable."),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="STRATEGY",
            help="With --mesh: agent, pipeline or plan; by default the other mesh chooses by the text of each task.",
        ),
    ] = "",
    planner: Annotated[
        str, typer.Option(metavar="ROLE", help="With --mesh: the role there that plans; by default planner.")
    ] = "",
    pass_metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="With --mesh: keys of the metadata of a run that cross, as a pattern; by default all but those of "
            "Archon itself. Repeatable.",
        ),
    ] = None,
    model: AgentModelOption = "",
    host: Annotated[
        str,
        typer.Option(
            envvar="ARCHON_HOST", metavar="HOST", help="The interface to listen on; by default the loopback interface."
        ),
    ] = "",
    port: Annotated[
        int,
        typer.Option(
            envvar="ARCHON_PORT", metavar="PORT", min=0, max=65535, help="The port to listen on; 0 for any free one."
        ),
    ] = 0,
    advertise: Annotated[
        str,
        typer.Option(
            envvar="ARCHON_ADVERTISE",
            metavar="HOST[:PORT]",
            help="The address that others dial; by default the one it listens on.",
        ),
    ] = "",
    attach: Annotated[
        str,
        typer.Option(
            envvar="ARCHON_ATTACH",
            metavar="HOST:PORT",
            help="The orchestrator to attach to: the agent does not listen, for others cannot dial it. By default it "
            "attaches if no orchestrator reaches it within 20 s.",
        ),
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="Validate the file and exit.")] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when a Python or YAML file in the folder of FILE changes.")
    ] = False,
    registry: RegistryOption = "",
) -> None:
    """Serve an agent from a YAML or Python file, another mesh, or an A2A agent, as a role of the mesh.

    A Python program is started with the addresses of registry and memory in ARCHON_REGISTRY and ARCHON_MEMORY. Ctrl-C
    drains the agent, and so does each restart of --reload: tasks in progress finish before it leaves the mesh.
    """
    host = host or loopback_host()
    if mesh:
        from archon_services.cli.serve_mesh import GatewayRole, serve_mesh

        if file is not None or reload or model or attach or a2a or a2a_keys:
            raise CliError("--mesh takes neither a FILE nor --a2a, --model, --reload or --attach", code=USAGE)
        if not check:
            _join_mesh(registry)
        given = (capability or (), strategy, role or (), planner, pass_metadata or ())
        other = GatewayRole(mesh, name, description, *given)
        raise typer.Exit(serve_mesh(other, host, port, advertise, registry, check=check))
    if a2a:
        from archon_services.cli.serve_a2a import RemoteRole, serve_a2a

        if file is not None or reload or model or attach or role or strategy or planner or pass_metadata:
            raise CliError("--a2a takes --name, --description, --capability and --a2a-keys, and no FILE", code=USAGE)
        if not check:
            _join_mesh(registry)
        card = RemoteRole(a2a, a2a_keys, name, description, capability or ())
        raise typer.Exit(serve_a2a(card, host, port, advertise, registry, check=check))
    if name or description or capability or strategy or planner or pass_metadata or a2a_keys:
        need_mesh = (
            "--name, --description and --capability need --mesh or --a2a; --strategy, --planner and --pass-metadata "
            "need --mesh; --a2a-keys needs --a2a"
        )
        raise CliError(need_mesh, code=USAGE)
    if len(role or ()) > 1:
        raise CliError("serve one --role at a time", code=USAGE)
    file = _file(file, role[0] if role else "")
    if not file.is_file():
        raise CliError(f"cannot read {file}: it is no file", code=USAGE)
    is_program = file.suffix == ".py"
    if check and is_program:
        _check_program(file)
        return
    if not check:
        _join_mesh(registry)
    place = Place(host, port, advertise, checked_address(attach) if attach else "", registry)
    if reload and not check:
        from archon_services.cli.reload import serve_reloading

        raise typer.Exit(asyncio.run(serve_reloading(file, _options(model, place))))
    if is_program:
        _become_program(file, _variables(model, place))
    _serve_yaml(file, model, place, check=check)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent is served: the interface and port it listens on, and the address that others dial; or the
    orchestrator that it attaches to. `named` is the registry as the caller names it."""

    host: str
    port: int
    advertise: str
    attach: str
    named: str

    @property
    def registry(self) -> str:
        """The registry; empty if the agent attaches. Raises CliError if no mesh is running."""
        return "" if self.attach else find_registry(self.named)

    @property
    def orchestrator(self) -> str:
        """The orchestrator of the mesh; empty if it is not known, or the agent attaches to another one."""
        return "" if self.attach else orchestrator_beside(self.registry)


def _join_mesh(registry: str) -> None:
    """Makes the served agent a member of the mesh whose registry is used: with its memory service, unless ARCHON_MEMORY
    names one, and with its id if it is the mesh of this machine."""
    from archon.mesh_id import VARIABLE
    from archon_services.agents.settings import AgentServiceSettings
    from archon_services.cli.render.output import print_stderr
    from archon_services.local_mesh import live_state

    try:
        home, address = find_home(), find_registry(registry)
    except CliError:
        return  # a mistake of the file is reported first
    state = live_state(home)
    if state is not None and state.registry == address and (mesh_id := home.mesh_id()):
        os.environ[VARIABLE] = mesh_id
    if AgentServiceSettings().memory:
        return
    if memory := memory_beside(address):
        os.environ[MEMORY] = memory
    else:
        print_stderr(
            f"note: the memory service beside the registry {address} is not known: runs share no values with this "
            f"agent, and its long-term memory is in files here. {MEMORY}=HOST:PORT names the service."
        )


def _file(file: Path | None, role: str) -> Path:
    """Returns the file to serve. Raises CliError unless either a file or a role with a YAML file is named."""
    if (file is None) is not bool(role):
        raise CliError("serve either a FILE or a --role, or another mesh by --mesh", code=USAGE)
    if file is not None:
        return file
    from archon_services.agents.roles.catalogue import FOLDER, YAML_ROLES

    if role not in YAML_ROLES:
        raise CliError(f"unknown role {role!r}: expected one of {', '.join(YAML_ROLES)}", code=USAGE)
    return FOLDER / f"{role}.yaml"


def _options(model: str, place: Place) -> list[str]:
    """Returns the options of a process that serves the file."""
    values = {
        "--model": model,
        "--host": place.host,
        "--port": str(place.port),
        "--advertise": place.advertise,
        "--attach": place.attach,
        "--registry": place.registry,
    }
    return [word for option, value in values.items() if value for word in (option, value)]


def _variables(model: str, place: Place) -> dict[str, str]:
    """Returns the variables of a program that serves a role."""
    values = {
        "MODEL": model,
        "HOST": place.host,
        "PORT": str(place.port),
        "ADVERTISE": place.advertise,
        "ATTACH": place.attach,
        "REGISTRY": place.registry,
        "ORCHESTRATOR": place.orchestrator,
    }
    return {f"ARCHON_{name}": value for name, value in values.items() if value}


def _check_program(file: Path) -> None:
    try:
        compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise CliError(f"{file} is no Python program: {error}", code=USAGE) from None
    print(f"{file} is a Python program.")


def _become_program(file: Path, variables: Mapping[str, str]) -> NoReturn:
    """Replaces this process, so that signals reach the program itself."""
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, str(file)], {**os.environ, **variables})


def _serve_yaml(file: Path, model: str, place: Place, *, check: bool) -> None:
    from archon.errors import InvalidArgument, NotFound
    from archon.plain_text import counted
    from archon_mesh.declared import load_agent
    from archon_mesh.node.tools import tool_descriptions
    from archon_services.agents.app import serve_role
    from archon_services.agents.settings import AgentServiceSettings

    overrides = replace(AgentServiceSettings().overrides(), model=model or None)
    try:
        declared = load_agent(file, overrides=overrides)
    except (NotFound, InvalidArgument) as error:
        raise CliError(str(error), code=USAGE) from None
    if check:
        agent = declared.agent
        names = [tool.name for tool in tool_descriptions(agent.tools, agent.policy)]
        tools = f"{counted(len(names), 'tool')} ({', '.join(names)})" if names else "no tools"
        print(f"{file} declares the role {declared.role.name} with {tools}.")
        return
    settings = AgentServiceSettings(
        registry=place.registry,
        host=place.host,
        port=place.port,
        advertise=place.advertise,
        attach=place.attach,
        orchestrator=place.orchestrator,
        log_level="info",
    )
    raise typer.Exit(serve_role(declared.role, settings, declared.agent))
