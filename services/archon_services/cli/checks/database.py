"""The PostgreSQL databases that the settings name: whether services can use them, and how many connections are free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning

APPLICATION: Final = "archon-doctor"

_SPARE: Final = 2
"""Connections that are opened, for a moment, in a database that services are using."""


async def check_databases(environment: Mapping[str, str], *, running: bool) -> list[Finding]:
    """Checks the databases that an environment names for the journal and the memory service; returns nothing if it
    names none. `running`: whether their services run here, and have the connections that they need."""
    from archon_services.postgres.dsn import is_dsn

    journal, memory = environment.get("ARCHON_JOURNAL", ""), environment.get("ARCHON_DB", "")
    findings: list[Finding] = []
    if is_dsn(journal):
        from archon_services.orchestrator.journal.postgres.journal import LEAST_CONNECTIONS, MOST_CONNECTIONS

        findings.append(await _check("the journal", journal, LEAST_CONNECTIONS, MOST_CONNECTIONS, running=running))
    if is_dsn(memory):
        from archon_services.memory.store.postgres.store import LEAST_CONNECTIONS as LEAST
        from archon_services.memory.store.postgres.store import MOST_CONNECTIONS as MOST

        findings.append(await _check("the memory service", memory, LEAST, MOST, running=running))
    return findings


async def _check(what: str, address: str, least: int, most: int, *, running: bool) -> Finding:
    from archon.errors import ArchonError, FailedPrecondition
    from archon_services.postgres.admission import admit
    from archon_services.postgres.dsn import parse_dsn

    most = _SPARE if running else most
    try:
        dsn = parse_dsn(address)
        granted = await admit(dsn, APPLICATION, least=0 if running else least, most=most, patience=0.0)
    except FailedPrecondition as error:
        return problem("database", f"{what}: {error.message}", "Its service refuses to start until this is changed.")
    except ArchonError as error:
        return problem("database", f"{what}: {error.message}", "Start the database, or correct the address.")
    where = f"{what}: the database at {dsn.redacted}"
    if granted < (1 if running else most):
        message = f"{where} has {granted} free connections" if granted else f"{where} has no free connection"
        return warning("database", message, "Runs are slower. Raise its limit of connections, or end other programs.")
    return ok("database", f"{where} has {'' if granted < most else 'at least '}{granted} free connections")
