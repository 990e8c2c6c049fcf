"""`archon audit`: the audit log."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any, Final

import typer

from archon.history import AuditEntry, AuditLink, ChainReport, PublicKeys, verify_log
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import FAILED, USAGE, CliError
from archon_services.cli.options import JsonOption, KeyOption, OrchestratorOption, RegistryOption
from archon_services.cli.render.output import print_json, print_table
from archon_services.cli.render.verified import chain_sentence
from archon_services.cli.target.audit_keys import public_keys
from archon_services.cli.target.mesh import connecting, find_orchestrator, find_registry
from archon_services.cli.wrapping import wrapped
from archon_services.local_mesh.audit_keys import rotate_audit_key
from archon_services.reports.texts import local_time, strip_controls

audit = typer.Typer(invoke_without_command=True)

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

SinceOption = Annotated[
    str, typer.Option("--since", metavar="TIME", help="From this time on: 30m, 12h or 7d ago, or 2026-01-31T12:00.")
]
UntilOption = Annotated[str, typer.Option("--until", metavar="TIME", help="Before this time, in the same forms.")]


@audit.callback()
def _group(call: typer.Context, orchestrator: OrchestratorOption = "") -> None:
    """Read and verify the audit log: who caused which action, on whose behalf. Without a command: list."""
    if call.invoked_subcommand is None:
        list_entries(orchestrator=orchestrator)


@audit.command("list")
def list_entries(
    since: SinceOption = "",
    until: UntilOption = "",
    identity: Annotated[str, typer.Option(metavar="NAME", help="Of this identity.")] = "",
    action: Annotated[str, typer.Option(metavar="ACTION", help="Of this action, such as run.cancel.")] = "",
    run: Annotated[str, typer.Option(metavar="RUN", help="About this run, by its full id.")] = "",
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="At most so many.")] = 100,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
    registry: RegistryOption = "",
) -> None:
    """List entries, newest first. Needs a token of an auditor or an admin."""
    entries = asyncio.run(
        _entries(
            _services(orchestrator, registry),
            start=_time(since),
            end=_time(until),
            identity=identity,
            action=action,
            run_id=run,
            limit=limit,
        )
    )
    if as_json:
        print_json([_values(entry) for entry in entries])
        return
    rows = [
        (
            local_time(entry.time),
            strip_controls(" for ".join((*entry.actors, entry.identity))),
            entry.action,
            strip_controls(entry.run_id or entry.target),
        )
        for entry in entries
    ]
    print_table(("time", "who", "action", "object"), rows, folded=(1, 3))


@audit.command()
def verify(
    key: KeyOption = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
    registry: RegistryOption = "",
) -> None:
    """Verify the chains of the log. Names the first entry of each that was changed or removed.

    Exit code 0 only if all chains are intact, and sealed as far as they are older than a few seconds.
    """
    keys = public_keys(key)
    logs = asyncio.run(_links(_services(orchestrator, registry)))
    reports = [report for links in logs for report in _reports(links, key=keys)]
    if as_json:
        print_json([_report_values(report) for report in reports])
    else:
        for report in reports:
            print(wrapped(chain_sentence(report, has_keys=keys is not None)))
        if not reports:
            print("the audit log has no entries yet")
    if any(report.fault is not None or report.seal is None for report in reports):
        raise typer.Exit(FAILED)


@audit.command("rotate-key")
def rotate_key() -> None:
    """Replace the key that seals histories. Histories that were sealed before verify as before.

    Services use the new key from their next start on: `archon restart orchestrator`, `archon restart registry`.
    """
    home = find_home()
    if not home.audit_key.exists():
        raise CliError(f"there is no audit key in {home.root}", hint="`archon token init` makes one.")
    key = rotate_audit_key(home)
    print(f"The key {key.key_id} seals once services start again: `archon restart orchestrator`, and `registry`.")


def _reports(links: list[AuditLink], *, key: object) -> list[ChainReport]:
    keys = key if isinstance(key, PublicKeys) else None
    chains = {chain: list(group) for chain, group in groupby(links, lambda link: link.chain)}
    return verify_log(chains, keys)


def _services(orchestrator: str, registry: str) -> dict[str, str]:
    """Returns the addresses of the services with a log: the orchestrator, and the registry if it is known."""
    services = {"orchestrator": find_orchestrator(orchestrator)}
    try:
        services["registry"] = find_registry(registry)
    except CliError:
        if registry:
            raise
    return services


async def _entries(services: dict[str, str], *, limit: int, **filters: Any) -> list[AuditEntry]:
    from archon.audit_client import AuditClient

    entries: list[AuditEntry] = []
    for service, address in services.items():
        with connecting(service, address):
            async with AuditClient(address) as client:
                entries += await client.entries(limit=limit, **filters)
    return sorted(entries, key=lambda entry: entry.time, reverse=True)[:limit]


async def _links(services: dict[str, str]) -> list[list[AuditLink]]:
    from archon.audit_client import AuditClient

    logs = []
    for service, address in services.items():
        with connecting(service, address):
            async with AuditClient(address) as client:
                logs.append([link async for link in client.links()])
    return logs


def _values(entry: AuditEntry) -> dict[str, object]:
    return {
        "time": entry.time,
        "tenant": entry.tenant,
        "identity": entry.identity,
        "actors": list(entry.actors),
        "action": entry.action,
        "run_id": entry.run_id,
        "target": entry.target,
        "details": dict(entry.details),
    }


def _report_values(report: ChainReport) -> dict[str, object]:
    return {
        "chain": report.chain,
        "first": report.first,
        "last": report.last,
        "sealed": report.sealed,
        "key_id": report.seal.key_id if report.seal is not None else "",
        "seal_time": report.seal.time if report.seal is not None else None,
        "fault": {"entry": report.fault.number, "reason": report.fault.reason} if report.fault is not None else None,
    }


def _time(text: str) -> float:
    """Returns wall seconds; 0 for an empty text."""
    if not text:
        return 0.0
    if match := _AGO.fullmatch(text):
        return max(1.0, time.time() - float(match[1]) * _UNITS[match[2]])
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise CliError(f"invalid time {text!r}: expected 30m, 12h, 7d or 2026-01-31T12:00", code=USAGE) from None
