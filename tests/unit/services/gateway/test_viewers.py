"""The stream of one viewer of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from archon.api.orchestrator.v1.run_pb2 import RunEvent
from archon.errors import TokenRevoked
from archon_services.common.byte_budget import ByteBudget
from archon_services.gateway.events.viewer import frames_from
from archon_services.gateway.watches import batches
from archon_services.gateway.watches.batches import settled
from archon_services.gateway.watches.frame import Frame
from archon_services.gateway.watches.hub import Hub
from archon_services.gateway.watches.topic import Topic
from tests.fixtures.waiting import until


async def test_a_viewer_that_never_reads_all_frames_loses_its_rights_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHECKED_EVERY", 0.0)
    monkeypatch.setattr(batches, "BATCH_BYTES", 1)  # a frame at a time

    async def many(after: int) -> AsyncIterator[Frame]:
        for number in range(after + 1, 100):
            yield Frame(number, RunEvent(seq=number))

    checks: list[int] = []

    def check() -> None:
        checks.append(len(checks))
        if len(checks) > 3:
            raise TokenRevoked("the token was revoked")

    topic = Topic("many", many, ByteBudget(1_000_000))
    topic.start()
    try:
        await until(lambda: topic.last == 99)
        pieces = [piece async for piece in frames_from(topic, 0, check)]
    finally:
        await topic.close()
    assert pieces[:3] == [b'id: %d\ndata: {"seq":"%d"}\n\n' % (number, number) for number in (1, 2, 3)]
    assert len(pieces) == 4
    assert pieces[3].startswith(b"event: failure\n")


async def test_a_viewer_that_comes_while_the_gateway_stops_is_sent_elsewhere() -> None:
    async def none(after: int) -> AsyncIterator[Frame]:
        await asyncio.Event().wait()
        yield Frame(after, RunEvent())

    hub = Hub[Topic](lambda _, budget: Topic("none", none, budget))
    hub.end()
    async with hub.viewing("run") as topic:
        await settled(topic)  # an error would be a status, after which a browser does not come back
        [piece] = [piece async for piece in frames_from(topic, topic.position_after(0), lambda: None)]
    assert b"stopping" in piece
    await hub.close()
