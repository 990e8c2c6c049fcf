"""Exports a run as one file, page by page: neither its steps nor its recorded calls are ever in memory together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import IO, Final

from archon.audit_client import AuditClient
from archon.client import Client
from archon.errors import ArchonError
from archon.history import RunManifest
from archon.history.bundle import head_line, step_line
from archon.history.run_file import HISTORY, MEMORY, RECORDS, MemoryVersion, RunFileWriter, memory_line, record_line
from archon.memory import MemoryGraphClient, MemoryItem
from archon.registry import RegistryClient
from archon_services.orchestrator.convert import events_of
from archon_services.orchestrator.convert.event_revision import REVISION

_PATIENCE: Final = 2.0
"""Seconds to wait for the memory service and the registry, which an export can do without."""


@dataclass(slots=True)
class ExportedRun:
    """The result of an export. `missing` names the parts that could not be had, and the reasons, as clauses."""

    manifest: RunManifest
    records: int = 0
    memory: int = 0
    missing: tuple[str, ...] = ()


@dataclass(slots=True)
class _Seen:
    """Facts about the run from its steps."""

    last_seq: int = 0
    ended: bool = False
    scope: str = ""
    roles: frozenset[str] = frozenset()


async def export_run(
    run_id: str, output: IO[bytes], *, orchestrator: str, memory: str = "", registry: str = ""
) -> ExportedRun:
    """Writes the file of a run to `output`. The addresses are host:port; without `memory` or `registry` the file lacks
    the versions in the shared memory, or of the roles. Raises UnknownRun, RunExpired, Unavailable, OSError."""
    writer = RunFileWriter(output)
    try:
        return await _write(writer, run_id, orchestrator, memory, registry)
    except BaseException:
        writer.abandon()
        raise


async def _write(writer: RunFileWriter, run_id: str, orchestrator: str, memory: str, registry: str) -> ExportedRun:
    seen = _Seen(scope=run_id)
    records = versions = 0
    missing: list[str] = []
    async with Client(orchestrator) as client, AuditClient(orchestrator) as audit:
        with writer.part(HISTORY) as part:
            is_first = True
            async for page in audit.history_pages(run_id):
                if is_first:
                    part.write(head_line(run_id, page.last_seq, ended=page.ended))
                    is_first = False
                for step in page.steps:
                    _look(seen, step.data, run_id)
                    part.write(step_line(step))
                seen.last_seq, seen.ended = page.last_seq, page.ended
        with writer.part(RECORDS) as part:
            async for record in client.records(run_id):
                part.write(record_line(record))
                records += 1
        with writer.part(MEMORY) as part:
            try:
                async for item in _memory_versions(memory, seen.scope, run_id):
                    part.write(memory_line(item))
                    versions += 1
            except (ArchonError, TimeoutError) as error:
                missing.append(f"versions of the shared memory ({_reason(error)})")
    roles: dict[str, tuple[str, ...]] = {}
    try:
        roles = await _role_versions(registry, seen.roles)
    except (ArchonError, TimeoutError) as error:
        missing.append(f"the versions of the roles ({_reason(error)})")
    manifest = RunManifest(
        run_id, seen.last_seq, seen.ended, made_by=_own_version(), event_revision=REVISION, roles=roles
    )
    writer.close(manifest)
    return ExportedRun(manifest, records, versions, tuple(missing))


def _look(seen: _Seen, data: bytes, run_id: str) -> None:
    """Notes the facts in the events of a step that the rest of the export needs."""
    for event in events_of(data, run_id):
        if event.HasField("submitted"):
            seen.scope = event.submitted.session_id or run_id
        elif event.HasField("dispatched") and event.dispatched.role not in seen.roles:
            seen.roles |= {event.dispatched.role}


async def _memory_versions(memory: str, scope: str, run_id: str) -> AsyncIterator[MemoryVersion]:
    """Yields the versions that the run has published and that are still there, by role and version."""
    if not memory:
        return
    items: list[MemoryItem] = []
    async with (
        asyncio.timeout(_PATIENCE),
        MemoryGraphClient(memory, scope=scope) as client,
        aclosing(client.watch()) as changes,
    ):
        async for change in changes:  # the first one has all that is there
            items = [item for item in change.items if item.run_id == run_id]
            break
    for item in sorted(items, key=lambda item: (item.source_id, item.version, item.seq)):
        yield MemoryVersion(
            scope, item.source_id, item.version, item.seq, str(item.policy.value), item.content, dict(item.metadata)
        )


async def _role_versions(registry: str, roles: frozenset[str]) -> dict[str, tuple[str, ...]]:
    if not registry:
        return dict.fromkeys(roles, ())
    async with asyncio.timeout(_PATIENCE), RegistryClient(registry) as client:
        registered = await client.list_instances()
    versions: dict[str, set[str]] = {role: set() for role in roles}
    for instance in registered:
        if instance.role in versions and instance.version:
            versions[instance.role].add(instance.version)
    return {role: tuple(sorted(found)) for role, found in versions.items()}


def _own_version() -> str:
    try:
        return version("archon-mesh")
    except PackageNotFoundError:
        return ""


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, ArchonError) else f"no answer within {_PATIENCE:g} s"
