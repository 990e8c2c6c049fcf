"""`archon replay`: replays the file of a run."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from archon_services.cli.errors import FAILED, NOT_FOUND, USAGE, CliError
from archon_services.cli.options import AgentModelOption, JsonOption, KeyOption, RegistryOption
from archon_services.cli.render.output import print_json
from archon_services.cli.target.audit_keys import public_keys
from archon_services.cli.target.mesh import connecting, find_registry

if TYPE_CHECKING:
    from archon.history import RunFile, RunReport
    from archon.registry import Registration
    from archon_mesh.declared.load import DeclaredAgent
    from archon_services.replay import Recording, ReplayMesh, RunAgain


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `archon export`.")],
    live: Annotated[
        list[str] | None,
        typer.Option(
            "--live",
            metavar="ROLE[,ROLE]",
            help="Have the agents of the mesh answer for these roles, instead of the file. Repeatable.",
        ),
    ] = None,
    serve: Annotated[
        list[Path] | None,
        typer.Option("--serve", metavar="FILE", help="Have this agent's file answer for its role. Repeatable."),
    ] = None,
    model: AgentModelOption = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail an attempt that is sent something else than in the recording.")
    ] = False,
    decide: Annotated[bool, typer.Option("--decide", help="Only decide it again: run nothing.")] = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
    registry: RegistryOption = "",
) -> None:
    """Replay the file of a run: decide it again by today's engine, and run it again from the file.

    \b
    archon replay run.archon
    archon replay run.archon --live designer
    archon replay run.archon --serve designer.yaml

    It runs again in a mesh of this process, whose agents give the recorded answers; with --live and --serve, some roles
    answer anew. Prints where it first differs, and why. Exit code 0 only if nothing differs.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # before gRPC is imported: it prints how the mesh of a replay ends
    from archon_services.cli.render.replay import print_decided, print_run_again, replay_document

    names = [name.strip() for each in live or () for name in each.split(",") if name.strip()]
    if decide and (names or serve or strict):
        raise CliError("--decide runs nothing: it goes with none of --live, --serve and --strict", code=USAGE)
    opened, report, recording = _open(file, key)
    has_keys = public_keys(key) is not None
    if not as_json:
        print_decided(report, recording, has_keys=has_keys)
    again: RunAgain | None = None
    reason = ""
    if not decide and recording.difference is None:
        again, reason = asyncio.run(_run(opened, recording, names, serve or [], model, registry, strict=strict))
        if not as_json:
            print_run_again(again, reason)
    if as_json:
        print_json(replay_document(report, recording, again, reason))
    if recording.difference is not None or (again is not None and not again.same) or (reason and (names or serve)):
        raise typer.Exit(FAILED)


def _open(path: Path, key: Path | None) -> tuple[RunFile, RunReport, Recording]:
    """Opens the file, verifies its history, and decides it again. Raises CliError if it was changed."""
    from archon.errors import InvalidArgument
    from archon.history import open_run_file, verify_run
    from archon_services.replay import decide_again

    try:
        file = open_run_file(path)
        history = file.history()
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else FAILED
        raise CliError(f"cannot read {path}: {error.strerror}", code=code) from None
    except InvalidArgument as error:
        raise CliError(error.message) from None
    report = verify_run(history.run_id, history.steps, public_keys(key), last_seq=history.last_seq, ended=history.ended)
    if not report.intact:
        raise CliError(
            f"{path} was changed: {report.fault}",
            hint="Seals of another mesh need its public keys: --key FILE." if "public keys" in report.fault else "",
        )
    return file, report, decide_again(history)


async def _run(
    file: RunFile,
    recording: Recording,
    names: list[str],
    files: list[Path],
    model: str,
    registry: str,
    *,
    strict: bool,
) -> tuple[RunAgain | None, str]:
    """Runs the recording again. Returns the reason in place of a result if it cannot be run again."""
    from archon.errors import FailedPrecondition, NotFound
    from archon_services.replay import replay_mesh

    declared = [_declared(each, model) for each in files]
    served = {each.role.name for each in declared}
    if both := sorted(served.intersection(names)):
        raise CliError(f"the role {both[0]} is both in --live and in a file of --serve", code=USAGE)
    agents = await _instances(registry, names) if names else []
    _present_service_token({agent.address for agent in agents})
    try:
        async with (
            replay_mesh(recording, file.records(), live={*names, *served}, strict=strict) as mesh,
            AsyncExitStack() as stack,
        ):
            for agent in agents:
                await mesh.register(agent)
            for each in declared:
                await _serve(each, mesh, stack)
            return await mesh.run(), ""
    except NotFound as error:
        raise CliError(error.message, code=NOT_FOUND) from None
    except FailedPrecondition as error:
        return None, error.message


def _present_service_token(addresses: set[str]) -> None:
    """Has the mesh of this process call live agents as a service of the mesh in ARCHON_HOME, whose key is at hand:
    agents let no other caller in. Without a key nothing is presented."""
    from archon.principal import Kind, Principal
    from archon.security import credentials
    from archon_services.cli.contexts import find_home
    from archon_services.local_mesh.tokens import TokenIssuer

    home = find_home()
    if not addresses or not home.signing_key.exists():
        return
    principal = Principal(Kind.SERVICE, "replay")
    token = credentials.Tokens(TokenIssuer(home).token(principal, "agents"), "agents")
    credentials.chosen.append(lambda target, audience: token if target in addresses and audience == "agents" else None)


def _declared(file: Path, model: str) -> DeclaredAgent:
    from archon.errors import InvalidArgument, NotFound
    from archon_mesh.declared import load_agent

    try:
        return load_agent(file, model=model or None)
    except (NotFound, InvalidArgument) as error:
        raise CliError(str(error), code=USAGE) from None


async def _serve(declared: DeclaredAgent, mesh: ReplayMesh, stack: AsyncExitStack) -> None:
    from archon.agent import AgentSettings
    from archon_mesh.node.serve import agent_server, connect_tools

    agent = await stack.enter_async_context(declared.agent)
    await connect_tools(agent)
    settings = AgentSettings(registry=mesh.registry, memory=mesh.memory)
    server = agent_server(declared.role, agent, settings, memory=mesh.memory)
    await server.start()
    stack.push_async_callback(server.stop, 0.0)


async def _instances(registry: str, roles: list[str]) -> list[Registration]:
    """Returns the instances of the roles in the mesh. Raises CliError if a role has none that can be dialled."""
    from archon.registry import RegistryClient

    address = find_registry(registry)
    with connecting("registry", address):
        async with RegistryClient(address) as client:
            registered = await client.list_instances()
    found = [instance for instance in registered if instance.role in roles]
    for role in roles:
        own = [instance for instance in found if instance.role == role]
        if not own:
            raise CliError(
                f"no agent of the mesh serves the role {role}", hint="`archon agents` lists them.", code=NOT_FOUND
            )
        if not any(instance.address for instance in own):
            raise CliError(
                f"the agents of the role {role} are attached, and cannot be dialled from here",
                hint="Serve one from its file instead: --serve FILE.",
            )
    return [instance for instance in found if instance.address]
