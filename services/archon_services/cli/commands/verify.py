"""`archon verify`: verifies the history of a run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from archon.history import RunHistory, read_bundle, verify_run, write_bundle
from archon_services.cli.errors import FAILED, USAGE, CliError
from archon_services.cli.options import JsonOption, KeyOption, OrchestratorOption
from archon_services.cli.render.output import print_json
from archon_services.cli.render.verified import run_sentence
from archon_services.cli.target.audit_keys import public_keys
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id
from archon_services.cli.wrapping import wrapped


def verify(
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="A run id, a unique prefix of a recent one, or `last`.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Verify this file of --save instead, without a mesh.")
    ] = None,
    key: KeyOption = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Also write the history to this file, which verifies elsewhere."),
    ] = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Verify that the history of a run is as the orchestrator wrote it.

    \b
    archon verify last
    archon verify last --save run.jsonl
    archon verify --file run.jsonl --key audit.pub.pem

    Names the first step that was changed, moved or removed. Exit code 0 only if every step up to a seal is intact.
    """
    if bool(run) == (file is not None):
        raise CliError("name a run, or a file with --file", code=USAGE)
    keys = public_keys(key)
    history = _read(file) if file is not None else asyncio.run(_fetch(find_orchestrator(orchestrator), run))
    report = verify_run(history.run_id, history.steps, keys, last_seq=history.last_seq, ended=history.ended)
    if save is not None:
        _save(history, save)
    if as_json:
        print_json(
            {
                "run_id": report.run_id,
                "intact": report.intact,
                "proven": report.proven,
                "complete": report.complete,
                "steps": report.steps,
                "events": report.events,
                "sealed_events": report.sealed_events,
                "key_id": report.seal.key_id if report.seal is not None else "",
                "seal_time": report.seal.time if report.seal is not None else None,
                "fault": report.fault,
            }
        )
    else:
        print(wrapped(run_sentence(report, has_keys=keys is not None)))
    if not report.proven:
        raise typer.Exit(FAILED)


async def _fetch(orchestrator: str, name: str) -> RunHistory:
    from archon.audit_client import AuditClient

    async with orchestrator_client(orchestrator) as client, AuditClient(orchestrator) as audit:
        return await audit.history(await find_run_id(client, name))


def _read(file: Path) -> RunHistory:
    from archon.errors import InvalidArgument

    try:
        return read_bundle(file)
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}") from None
    except InvalidArgument as error:
        raise CliError(str(error)) from None


def _save(history: RunHistory, file: Path) -> None:
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
            write_bundle(history, output)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}") from None
