"""The log of one registry: a chain, each of whose entries is sealed at once, since they are few."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from archon.errors import DataLoss, Unavailable
from archon.history import AuditEntry, AuditKey, AuditLink, SealReason
from archon.history.audit import audit_link, first_audit_link
from archon.history.seal import chain_of_audit
from archon.principal import DEFAULT_TENANT
from archon_services.common.audit_entry import AuditFilter, entry_of_call
from archon_services.registry.audit.store import AuditStore

MAX_ENTRIES: Final = 10_000
"""Entries that are kept, of all registries of a mesh; the oldest are removed."""

TRIM_EVERY: Final = 100
"""Entries between two removals of old ones."""

_ENDS: Final = 50
"""Chains whose ends the first entry of a new chain names."""


class RegistryAudit:
    """`now` returns wall seconds, `key` seals; entries older than `keep` seconds are removed."""

    def __init__(self, store: AuditStore, now: Callable[[], float], *, key: AuditKey | None, keep: float) -> None:
        self._store = store
        self._now = now
        self._key = key
        self._keep = keep
        self._begin()
        self._adding = asyncio.Lock()

    def _begin(self) -> None:
        self._chain = f"registry-{uuid.uuid4().hex[:12]}"
        self._number, self._link = 0, first_audit_link(self._chain)

    async def add(self, action: str, target: str, details: Mapping[str, Any]) -> None:
        """Stores an entry about the call being served, durable on return: call it before the effect. Raises Unavailable
        if it cannot be stored; the call must have no effect then."""
        async with self._adding:
            if not self._number:
                await self._append(await self._first())
            await self._append(entry_of_call(action, self._now(), target=target, details=details))
            if self._number % TRIM_EVERY == 2:
                await self._trim()

    async def aclose(self) -> None:
        """Closes the store. Idempotent."""
        await self._store.close()

    async def audit_entries(self, wanted: AuditFilter, below: int, limit: int) -> list[tuple[int, bytes]]:
        """Returns (number, data) of entries, newest first; `below` is the number of the last one of the previous page,
        0 for the first page."""
        found = sorted((link for link in await self._links()), key=lambda link: (_time(link), link.chain, link.number))
        rows = [
            (number, link.data)
            for number, link in enumerate(found, 1)
            if (not below or number < below) and _matches(link.data, wanted)
        ]
        return rows[::-1][:limit]

    async def audit_links(self, after: tuple[str, int], limit: int) -> list[AuditLink]:
        """Returns entries of all tenants in the order of (chain, number), after this place."""
        links = [link for link in await self._links() if (link.chain, link.number) > after]
        return sorted(links, key=lambda link: (link.chain, link.number))[:limit]

    async def _append(self, entry: AuditEntry) -> None:
        data = entry.encode()
        number, digest = self._number + 1, sha256(data).digest()
        link = audit_link(self._link, number, digest)
        seal = b""
        if self._key is not None:
            seal = self._key.seal(chain_of_audit(self._chain), number, link, self._now(), SealReason.LENGTH)
        value = {"data": data.decode(), "digest": digest.hex(), "link": link.hex(), "seal": seal.hex()}
        try:
            stored = await self._store.add(_key(self._chain, number), json.dumps(value).encode())
        except BaseException:
            self._begin()  # it may be stored: a new chain goes on after it
            raise
        if not stored:
            self._begin()
            raise Unavailable("the audit log has another entry at this place", retry_delay=0.1)
        self._number, self._link = number, link

    async def _first(self) -> AuditEntry:
        ends: dict[str, AuditLink] = {}
        for link in await self._links():
            if link.number > (ends[link.chain].number if link.chain in ends else 0):
                ends[link.chain] = link
        newest = sorted(ends.values(), key=_time, reverse=True)[:_ENDS]
        details = {"ends": [f"{link.chain} {link.number} {link.link.hex()}" for link in newest]}
        now = self._now()
        return AuditEntry(DEFAULT_TENANT, now, "service:registry", "audit.begin", target=self._chain, details=details)

    async def _trim(self) -> None:
        """Removes entries that are too old, or too many; the end of each chain stays."""
        links = sorted(await self._links(), key=_time)
        ends = {link.chain: link.number for link in sorted(links, key=lambda link: link.number)}
        excess, oldest = len(links) - MAX_ENTRIES, self._now() - self._keep
        gone: dict[str, int] = {}
        for number, link in enumerate(links):
            if (number < excess or _time(link) < oldest) and link.number < ends[link.chain]:
                gone[link.chain] = max(gone.get(link.chain, 0), link.number)
        keys = [_key(link.chain, link.number) for link in links if link.number <= gone.get(link.chain, 0)]
        await self._store.remove(keys)

    async def _links(self) -> list[AuditLink]:
        entries = await self._store.read()
        return [link for key, value in entries.items() if (link := _read(key, value)) is not None]


def _key(chain: str, number: int) -> str:
    return f"{chain}/{number:012}"


def _read(key: str, value: bytes) -> AuditLink | None:
    """Returns a stored entry; None for something else, which leaves a gap in its chain."""
    chain, _, number = key.rpartition("/")
    try:
        fields = json.loads(value)
        digest, link, seal = (bytes.fromhex(fields[name]) for name in ("digest", "link", "seal"))
        return AuditLink(chain, int(number), digest, link, seal, str(fields["data"]).encode())
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _time(link: AuditLink) -> float:
    entry = _entry(link.data)
    return entry.time if entry is not None else 0.0


def _entry(data: bytes) -> AuditEntry | None:
    try:
        return AuditEntry.decode(data)
    except DataLoss:
        return None


def _matches(data: bytes, wanted: AuditFilter) -> bool:
    entry = _entry(data)
    return (
        entry is not None
        and entry.tenant == wanted.tenant
        and (not wanted.after or entry.time >= wanted.after)
        and (not wanted.before or entry.time < wanted.before)
        and wanted.identity in ("", entry.identity)
        and wanted.action in ("", entry.action)
        and wanted.run_id in ("", entry.run_id)
    )
