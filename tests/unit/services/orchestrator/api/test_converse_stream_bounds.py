"""A caller that does not read is throttled, and receives every reply when it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon_services.orchestrator.api.converse_stream import MAX_COMMANDS, ConverseStream
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.ports import SystemClock
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.manager import Runs
from tests.fixtures.orchestrating import commands_of

COMMANDS = 3 * MAX_COMMANDS


async def test_commands_with_unread_replies_are_bounded() -> None:
    taken = 0

    async def requests() -> AsyncIterator[pb.ConverseRequest]:
        nonlocal taken
        for number in range(COMMANDS):
            taken += 1
            cancel = pb.CancelRunRequest(run_id="unknown")
            yield pb.ConverseRequest(correlation_id=str(number), cancel=cancel)

    journal = MemoryJournal()
    numbers = count()
    runs = Runs(owner="o", clock=SystemClock(), journal=journal, new_id=lambda: str(next(numbers)))
    follower = RegistryWatch("127.0.0.1:1", lambda instances: None)
    commands = commands_of(runs, journal, follower)
    try:
        async with ConverseStream(commands, runs.watchers, requests()) as conversation:
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert taken == MAX_COMMANDS + 1, "one further command waits for room"
            answered: list[str] = []
            while response := await conversation.next():
                answered += [reply.correlation_id for reply in pb.ConverseResponse.FromString(response).replies]
    finally:
        await follower.close()
    assert sorted(answered, key=int) == [str(number) for number in range(COMMANDS)]
