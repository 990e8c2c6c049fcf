"""Watches of runs that another replica owns."""

from __future__ import annotations

from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.watch.forward import WatchForwarder
from archon_services.orchestrator.watch.hub import WatchHub


class NoRuns:
    """A replica without runs, which reaches no other."""

    def __init__(self) -> None:
        self.watchers = WatchHub(MemoryJournal(shared=True))

    def holds(self, run_id: str) -> bool:
        return False

    def address_of(self, owner: str) -> str:
        return ""


async def test_a_watch_may_end_after_the_replica_has_stopped() -> None:
    runs = NoRuns()
    forwarder = WatchForwarder(MemoryJournal(shared=True), runs, runs)
    async with forwarder.following("r", relayed=False):
        await forwarder.close()
    async with forwarder.following("r", relayed=False):
        assert forwarder._followers == {"r": 1}
    assert not forwarder._followers
    await forwarder.close()
