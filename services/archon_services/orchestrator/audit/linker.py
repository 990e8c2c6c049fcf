"""Links the entries of the audit log to the chain of this process, and seals it.

Entries are stored without a link, in the transaction of their effect, so that commits of several connections need not
wait for each other. The links follow within a second, and each group of them ends with a seal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import ArchonError
from archon.history import AuditEntry, AuditKey, SealReason
from archon.history.audit import audit_link, first_audit_link
from archon.history.seal import chain_of_audit
from archon.principal import DEFAULT_TENANT
from archon_services.orchestrator.journal import AuditRow, Journal, LinkedRow

_log = logging.getLogger(__name__)

INTERVAL: Final = 1.0
"""Seconds until new entries are linked and sealed."""

ADOPT_INTERVAL: Final = 10.0
"""Seconds between two looks for entries of processes that have died."""

TRIM_INTERVAL: Final = 6 * 3600.0
"""Seconds between two removals of entries after their time."""

GROUP: Final = 500
"""Entries that are linked in one transaction."""

HEADS: Final = 50
"""Chains whose ends the first entry of a new chain names."""

CLOSE_TIMEOUT: Final = 5.0
"""Seconds for the last group, when the process stops."""


class AuditLinker:
    """Keeps one chain, named by the incarnation that `owner` returns; a new incarnation begins a new chain. The first
    entry of a chain names the ends of the chains before it, so that a chain that is cut later is noticed.

    `key` seals; without it entries have links alone. Entries older than `keep` seconds are removed. `now` returns wall
    seconds."""

    def __init__(
        self,
        journal: Journal,
        owner: Callable[[], str],
        now: Callable[[], float],
        *,
        key: AuditKey | None = None,
        keep: float,
    ) -> None:
        self._journal = journal
        self._owner = owner
        self._now = now
        self._key = key
        self._keep = keep
        self._chain = ""
        self._number = 0
        self._link = b""
        self._doubtful = False
        """Whether the last group may be stored, without an answer."""

        self._added = asyncio.Event()
        self._loop = BackgroundLoop("audit log", self._run, expected=(ArchonError, TimeoutError))

    def wake(self) -> None:
        """Has the loop link the entries that were stored since."""
        self._added.set()

    def start(self) -> None:
        """Links entries until `close`. Call it once the incarnation has entered."""
        self._loop.start()

    async def close(self) -> None:
        """Links the last entries and ends the chain. Idempotent."""
        running = self._loop.running
        await self._loop.close()
        if not running:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self.link_all()
                if self._chain:
                    await self._note("audit.end", {})
                    await self.link_all(last=True)
        except (ArchonError, TimeoutError) as error:
            _log.warning("the last entries of the audit log are not linked: %s", error)

    async def link_all(self, *, last: bool = False) -> None:
        """Links all entries that are due. `last`: the chain ends with them. Raises the errors of the journal."""
        owner = self._owner()
        if self._chain != owner:
            heads = await self._journal.audit_heads(HEADS)
            self._chain, self._number, self._link = owner, 0, first_audit_link(owner)
            await self._note(
                "audit.begin", {"ends": [f"{chain} {number} {link.hex()}" for chain, number, link in heads]}
            )
        while rows := await self._journal.unlinked_audit(self._chain, GROUP):
            await self._link_group(rows, SealReason.END if last and len(rows) < GROUP else SealReason.LENGTH)
            if len(rows) < GROUP:
                return

    async def _link_group(self, rows: list[tuple[int, bytes]], reason: SealReason) -> None:
        if self._doubtful:
            await self._read_end()
        number, link, linked = self._number, self._link, []
        for row_id, data in rows:
            digest = sha256(data).digest()
            number += 1
            link = audit_link(link, number, digest)
            linked.append(LinkedRow(row_id, number, digest, link, b""))
        if self._key is not None:
            seal = self._key.seal(chain_of_audit(self._chain), number, link, self._now(), reason)
            last = linked[-1]
            linked[-1] = LinkedRow(last.row_id, number, last.digest, link, seal)
        self._doubtful = True
        if await self._journal.link_audit(self._chain, linked):
            self._number, self._link = number, link
        self._doubtful = False

    async def _read_end(self) -> None:
        for chain, number, link in await self._journal.audit_heads(HEADS):
            if chain == self._chain:
                self._number, self._link = number, link
                return
        self._number, self._link = 0, first_audit_link(self._chain)

    async def _note(self, action: str, details: dict[str, object]) -> None:
        now = self._now()
        entry = AuditEntry(DEFAULT_TENANT, now, "service:orchestrator", action, target=self._chain, details=details)
        row = AuditRow(self._chain, entry.tenant, now, entry.identity, action, "", entry.encode())
        await self._journal.add_audit([row])

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        trimmed_at = -TRIM_INTERVAL
        while True:
            self._added.clear()
            await self.link_all()
            if loop.time() - trimmed_at >= TRIM_INTERVAL:
                await self._journal.trim_audit(self._now() - self._keep)
                trimmed_at = loop.time()
            self._loop.report_progress()
            try:
                async with asyncio.timeout(ADOPT_INTERVAL):
                    await self._added.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(INTERVAL)
