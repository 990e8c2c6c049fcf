"""The audit log of the registry: who pinned which edges, in a sealed chain, over each store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

from archon.audit_client import AuditClient
from archon.errors import Unavailable
from archon.history import AuditKey, AuditLink, ChainReport, PublicKeys, verify_log
from archon.registry import RegistryClient
from archon_services.registry import registry_app
from archon_services.registry.audit import MemoryAuditStore, RegistryAudit
from archon_services.registry.audit import log as audit_log
from tests.fixtures.registry import settings


def verified(links: Sequence[AuditLink], key: AuditKey) -> list[ChainReport]:
    chains = {chain: list(group) for chain, group in groupby(links, lambda link: link.chain)}
    return verify_log(chains, PublicKeys.of(key))


async def test_a_change_of_the_edges_is_in_a_sealed_chain(registry_store: str, prefix: str, tmp_path: Path) -> None:
    key, file = AuditKey.generate(), tmp_path / "audit-key.pem"
    file.touch(0o600)
    file.write_bytes(key.pem)
    for _ in range(2):
        values = settings(etcd=registry_store, prefix=prefix, audit_key=str(file))
        async with registry_app(values) as address, RegistryClient(address) as client, AuditClient(address) as audit:
            await client.pin_edges([("a", "b")])
            await client.unpin_edges([("a", "b")])
            entries = await audit.entries(action="edges.pin", limit=1)
            assert [(entry.identity, entry.target) for entry in entries] == [("anonymous", "a -> b")]
            newest = [entry.action for entry in await audit.entries(limit=3)]
            assert newest == ["edges.unpin", "edges.pin", "audit.begin"]
            reports = verified([link async for link in audit.links()], key)
            assert all(report.fault is None and report.sealed == report.last == 3 for report in reports), reports
    assert len(reports) == (1 if registry_store == "memory" else 2)


async def test_old_and_surplus_entries_leave_sealed_anchors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "MAX_ENTRIES", 5)
    monkeypatch.setattr(audit_log, "TRIM_EVERY", 4)
    key, now = AuditKey.generate(), 1_000.0
    log = RegistryAudit(MemoryAuditStore(), lambda: now, key=key, keep=100.0)
    for number in range(13):
        await log.add("edges.pin", f"a -> b{number}", {})
        now += 1.0
    links = await log.audit_links(("", 0), 100)
    assert [link.number for link in links] == [10, 11, 12, 13, 14]
    (report,) = verified(links, key)
    assert (report.fault, report.first) == (None, 10)
    now += 1_000.0
    for _ in range(4):
        await log.add("edges.pin", "c -> d", {})
    assert (await log.audit_links(("", 0), 100))[0].number == 15


async def test_a_change_without_an_entry_is_refused() -> None:
    class Broken(MemoryAuditStore):
        async def add(self, key: str, value: bytes) -> bool:
            raise Unavailable("etcd is away")

    log = RegistryAudit(Broken(), lambda: 1.0, key=None, keep=100.0)
    with pytest.raises(Unavailable):
        await log.add("edges.pin", "a -> b", {})
