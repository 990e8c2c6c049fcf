"""The parts of an orchestrator that a unit test needs, put together."""

from __future__ import annotations

import time
from typing import Any

from archon_services.orchestrator.commands import Commands
from archon_services.orchestrator.journal import Journal
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.relays import Relays
from archon_services.orchestrator.runs import Runs


def ownership_of(runs: Runs, journal: Journal) -> Ownership:
    """Not started."""
    return Ownership(journal, runs, new_owner=lambda: "another", monotonic=time.monotonic)


def commands_of(runs: Runs, journal: Journal, follower: Any) -> Commands:
    """Over these runs."""
    return Commands(runs, journal, follower, Relays(journal, runs, ownership_of(runs, journal)), time.time)


async def started(runs: Runs, journal: Journal, transport: Any) -> int:
    """Takes up what the journal has, as a process does when it starts; returns how many runs."""
    runs.start(transport)
    ownership = ownership_of(runs, journal)
    claimed = await ownership.start()
    await ownership.stop()
    runs.claimed()
    return claimed
