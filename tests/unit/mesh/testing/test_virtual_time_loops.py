"""Virtual time in event loops that a test runs itself: a fixture's, one that is interrupted, one of another library."""

from __future__ import annotations

import asyncio
import signal

import pytest
import uvloop

from archon.errors import FailedPrecondition
from archon_mesh.testing import VirtualTime, virtual_time
from tests.fixtures.virtual_time import pass_time

pytestmark = pytest.mark.usefixtures("clock_put_back")

SHORT = 0.05
"""Seconds of the machine."""


def test_a_block_of_a_fixture_is_ended_in_its_test() -> None:
    """A fixture is set up by a task that has ended when the test waits."""
    with asyncio.Runner() as runner:
        clock = VirtualTime(patience=SHORT)
        runner.run(clock.__aenter__())
        runner.run(clock.advance(10))
        with pytest.raises(FailedPrecondition, match="nothing will wake it"):
            runner.run(asyncio.Event().wait())
        runner.run(clock.__aexit__(None, None, None))
        assert clock.now == 10


def test_an_interrupt_ends_a_block() -> None:
    async def main() -> None:
        async with VirtualTime() as clock:
            asyncio.get_running_loop().call_later(60, signal.raise_signal, signal.SIGINT)
            try:
                await pass_time(3600)
            finally:
                assert clock.now == 60

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert not virtual_time.is_active()


def test_another_event_loop_is_refused() -> None:
    async def enter() -> None:
        await VirtualTime().__aenter__()

    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        pytest.raises(FailedPrecondition, match=r"uvloop\.Loop has a clock of its own"),
    ):
        runner.run(enter())
    assert not virtual_time.is_active()
