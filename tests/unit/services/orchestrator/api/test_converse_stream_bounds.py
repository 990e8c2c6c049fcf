"""A caller that does not read is throttled, and receives every reply when it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any
from unittest.mock import AsyncMock

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ResourceExhausted
from archon_services.orchestrator.api.converse_stream import MAX_COMMANDS, REPLIES_BYTES, ConverseStream
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.roles.registry_watch import RegistryWatch
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.watch.hub import WatchHub
from tests.fixtures.orchestrating import commands_of
from tests.fixtures.waiting import run_ready_tasks, until

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
    runs = Runs(owner="o", clock=JournalClock(journal), journal=journal, new_id=lambda: str(next(numbers)))
    follower = RegistryWatch("127.0.0.1:1", lambda changed, removed: None)
    commands = commands_of(runs, journal, follower)
    try:
        async with ConverseStream(commands, runs.watchers, requests()) as conversation:
            await until(lambda: taken == MAX_COMMANDS + 1)
            await run_ready_tasks()
            assert taken == MAX_COMMANDS + 1, "one further command waits for room"
            answered: list[str] = []
            while response := await conversation.next():
                answered += [reply.correlation_id for reply in pb.ConverseResponse.FromString(response).replies]
    finally:
        await follower.close()
    assert sorted(answered, key=int) == [str(number) for number in range(COMMANDS)]


class Large:
    """Commands that know one run, which is large."""

    async def row(self, run_id: str) -> None:
        """Returns nothing: no test needs it."""

    async def run(self, run_id: str) -> run_pb2.Run:
        return run_pb2.Run(run_id=run_id, goal=[common_pb2.Part(text="x" * 300_000)])


async def test_a_run_in_a_reply_is_truncated_if_many_replies_wait() -> None:
    async def requests() -> AsyncIterator[pb.ConverseRequest]:
        for number in range(100):
            yield pb.ConverseRequest(correlation_id=str(number), cancel=pb.CancelRunRequest(run_id="r"))

    commands: Any = Large()
    commands.control = AsyncMock()
    async with ConverseStream(commands, WatchHub(MemoryJournal()), requests()) as conversation:
        await run_ready_tasks(500)
        assert conversation._reply_bytes < REPLIES_BYTES + 100 * 200
        replies: list[pb.ConverseReply] = []
        while response := await conversation.next():
            replies += pb.ConverseResponse.FromString(response).replies
    assert [reply.run.run_id for reply in replies] == ["r"] * 100
    assert [reply.run.truncated for reply in replies[:4]] == [False, False, False, True]


async def test_the_number_of_streams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.orchestrator.api.converse_stream.MAX_STREAMS", 1)

    async def requests() -> AsyncIterator[pb.ConverseRequest]:
        return
        yield

    commands: Any = Large()
    hub = WatchHub(MemoryJournal())
    async with ConverseStream(commands, hub, requests()):
        with pytest.raises(ResourceExhausted):
            await ConverseStream(commands, hub, requests()).__aenter__()
    async with ConverseStream(commands, hub, requests()):
        pass
