"""An instance that does not answer is dialled less and less often, and delays no other."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from archon.errors import Unavailable
from archon.registry import Registration
from archon_services.orchestrator.sessions import Limits, SessionPool, dials, session
from archon_services.orchestrator.sessions.dials import Dials, Place, Turn
from tests.fixtures.virtual_time import pass_time
from tests.fixtures.waiting import eventually
from tests.simulation.loop import run_virtual
from tests.unit.services.orchestrator.sessions.inbox import Inbox

WINDOW = 0.02


class DeadStream:
    """A stream to an instance that refuses connections. Records when each was opened."""

    dialled: list[float] = []

    def __init__(self, **_: Any) -> None: ...

    async def serve(self, address: str, *, fresh: bool) -> None:
        """Fails at once."""
        self.dialled.append(asyncio.get_running_loop().time())
        raise Unavailable("connection refused")


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(session, "Stream", DeadStream)
    monkeypatch.setattr(session, "MIN_BACKOFF", 0.001)
    monkeypatch.setattr(session, "MAX_BACKOFF", 0.002)
    monkeypatch.setattr(session, "MAX_REDIAL", 30.0)
    monkeypatch.setattr(dials, "FIRST_PLACE", 0.0)
    monkeypatch.setattr(dials, "REDIAL_PLACE", 0.0)
    DeadStream.dialled.clear()
    pool = SessionPool(orchestrator_id="o", inbox=Inbox(), limits=Limits(resume_window=WINDOW))
    yield pool
    await pool.close()


def test_pauses_grow_once_the_resume_window_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "Stream", DeadStream)
    DeadStream.dialled.clear()

    async def course() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        pool = SessionPool(orchestrator_id="o", inbox=Inbox(), limits=Limits(resume_window=5.0))
        pool.update([Registration("a", instance_id="a1")])
        await pass_time(600.0)
        times = [time - began for time in DeadStream.dialled]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        within = [pause for time, pause in zip(times, pauses, strict=False) if time + pause < 5.0]
        assert len(within) >= 10
        assert max(within) <= session.MAX_BACKOFF
        assert pauses[-1] > 0.7 * session.MAX_REDIAL
        assert max(pauses) <= session.MAX_REDIAL
        await pool.close()

    run_virtual(course())


async def test_only_the_first_dial_waits_with_the_first_dials_of_others(
    pool: SessionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[Turn] = []
    take = Dials.take

    async def recorded(self: Dials, turn: Turn) -> Place:
        turns.append(turn)
        return await take(self, turn)

    monkeypatch.setattr(Dials, "take", recorded)
    pool.update([Registration("a", instance_id="a1")])

    async def dialled() -> bool:
        return len(DeadStream.dialled) >= 3

    await eventually(dialled)
    assert turns[:3] == [Turn(False, 0), Turn(False, 1), Turn(False, 2)]


async def test_an_instance_that_registers_anew_is_dialled_at_once(
    pool: SessionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "MIN_BACKOFF", 30.0)
    monkeypatch.setattr(session, "MAX_BACKOFF", 30.0)
    pool.update([Registration("a", "1.0", instance_id="a1")])

    async def dialled_once() -> bool:
        return len(DeadStream.dialled) == 1

    await eventually(dialled_once)
    pool.update([Registration("a", "1.1", instance_id="a1")])

    async def dialled_twice() -> bool:
        return len(DeadStream.dialled) == 2

    await eventually(dialled_twice)
    first, second = DeadStream.dialled
    assert second - first < 30.0 * 0.7, "the shortest pause"
