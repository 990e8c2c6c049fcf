"""`archon export`: writes a run as one file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from archon.plain_text import counted
from archon_services.cli.errors import CliError
from archon_services.cli.options import JsonOption, OrchestratorOption, RegistryOption, RunArgument
from archon_services.cli.render.output import print_json, print_stderr
from archon_services.cli.run_ids import SHORT
from archon_services.cli.target.mesh import find_registry, find_target, orchestrator_client
from archon_services.cli.target.run import find_run_id
from archon_services.cli.wrapping import wrapped

if TYPE_CHECKING:
    from archon_services.replay import ExportedRun


def export(
    run: RunArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file; default: `RUN.archon`.")
    ] = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
    registry: RegistryOption = "",
) -> None:
    """Write a run as one file: its history, its recorded calls, its published memory.

    \b
    archon export last -o run.archon
    archon replay run.archon

    The file has the goal, the answers, the inputs and the recorded prompts: keep it private. Contents that were
    redacted when they were recorded stay redacted.
    """
    exported, file = asyncio.run(_export(run, output, orchestrator, registry))
    size = file.stat().st_size
    if as_json:
        print_json({"file": str(file), "bytes": size, **_values(exported)})
        return
    parts = [
        counted(exported.manifest.last_seq, "event"),
        counted(exported.records, "recorded call"),
        f"{counted(exported.memory, 'version')} of the shared memory",
    ]
    print(wrapped(f"Wrote {file} ({_size(size)}): {', '.join(parts)}."))
    if not exported.manifest.ended:
        print_stderr("The run goes on: the file has it up to here.")
    for missing in exported.missing:
        print_stderr(f"Not in the file: {missing}.")


async def _export(name: str, output: Path | None, orchestrator: str, registry: str) -> tuple[ExportedRun, Path]:
    from archon_services.replay import export_run

    target = find_target(orchestrator)
    async with orchestrator_client(target.orchestrator) as client:
        run_id = await find_run_id(client, name)
        file = output or Path(f"{run_id[:SHORT]}.archon")
        partial = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            with _private(partial) as sink:
                exported = await export_run(
                    run_id,
                    sink,
                    orchestrator=target.orchestrator,
                    memory=target.memory,
                    registry=_registry(registry, orchestrator),
                )
            partial.replace(file)
        except OSError as error:
            raise CliError(f"cannot write {file}: {error.strerror}") from None
        finally:
            partial.unlink(missing_ok=True)
    return exported, file


def _private(file: Path) -> IO[bytes]:
    """Creates a file that only its owner can read."""
    return open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _registry(registry: str, orchestrator: str) -> str:
    """The registry, which an export can do without; empty if it is not known."""
    if orchestrator and not registry:
        return ""
    try:
        return find_registry(registry)
    except CliError:
        if registry:
            raise
        return ""


def _values(exported: ExportedRun) -> dict[str, Any]:
    manifest = exported.manifest
    return {
        "run_id": manifest.run_id,
        "events": manifest.last_seq,
        "ended": manifest.ended,
        "records": exported.records,
        "memory_versions": exported.memory,
        "roles": {role: list(versions) for role, versions in manifest.roles.items()},
        "missing": list(exported.missing),
    }


def _size(count: int) -> str:
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
