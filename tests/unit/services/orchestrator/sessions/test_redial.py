"""An instance that does not answer is dialled less and less often, and delays no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from archon.errors import Unavailable
from archon.registry import Registration
from archon_services.orchestrator.sessions import Limits, SessionPool, session
from tests.fixtures.waiting import eventually
from tests.unit.services.orchestrator.sessions.inbox import Inbox

WINDOW = 0.02


class DeadStream:
    """A stream to an instance that refuses connections. Records when each was opened, and in which queue it waited."""

    dialled: list[tuple[str, float]] = []

    def __init__(self, *, opening: asyncio.Semaphore, **_: Any) -> None:
        self.opening = opening

    async def serve(self, address: str, *, fresh: bool) -> None:
        """Fails at once."""
        queue = "first" if self.opening is pools[-1]._opening else "redial"
        self.dialled.append((queue, asyncio.get_running_loop().time()))
        raise Unavailable("connection refused")


pools: list[SessionPool] = []


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(session, "Stream", DeadStream)
    monkeypatch.setattr(session, "MIN_BACKOFF", 0.001)
    monkeypatch.setattr(session, "MAX_BACKOFF", 0.002)
    monkeypatch.setattr(session, "MAX_REDIAL", 30.0)
    DeadStream.dialled.clear()
    pool = SessionPool(orchestrator_id="o", inbox=Inbox(), limits=Limits(resume_window=WINDOW))
    pools.append(pool)
    yield pool
    await pool.close()
    pools.clear()


async def test_pauses_grow_once_the_resume_window_is_over(pool: SessionPool) -> None:
    pool.update([Registration("a", instance_id="a1")])
    started = asyncio.get_running_loop().time()
    await asyncio.sleep(WINDOW)
    within = len(DeadStream.dialled)
    await asyncio.sleep(0.5)
    after = len(DeadStream.dialled) - within
    assert within >= 5
    assert after <= 14, "with a pause of 2 ms at most it would be 250"
    times = [time - started for _, time in DeadStream.dialled]
    assert times[-1] - times[-2] > 0.02


async def test_only_the_first_dial_waits_with_the_first_dials_of_others(pool: SessionPool) -> None:
    pool.update([Registration("a", instance_id="a1")])

    async def dialled() -> bool:
        return len(DeadStream.dialled) >= 3

    await eventually(dialled)
    assert [queue for queue, _ in DeadStream.dialled[:3]] == ["first", "redial", "redial"]


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
    (_, first), (_, second) = DeadStream.dialled
    assert second - first < 30.0 * 0.7, "the shortest pause"
