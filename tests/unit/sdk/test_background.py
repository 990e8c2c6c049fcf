"""Background loops: restart after failures, backoff, progress, cancellation."""

from __future__ import annotations

import asyncio
import logging

import pytest

from archon.background import UNHEALTHY_AFTER, BackgroundLoop, monitor
from archon.errors import Unavailable
from tests.fixtures.virtual_time import in_virtual_time, pass_time


class Sleeps:
    """Records delays instead of waiting for them; the loop stops at a delay after `count` of them."""

    def __init__(self, count: int) -> None:
        self.delays: list[float] = []
        self.reached = asyncio.Event()
        self._count = count

    async def __call__(self, delay: float) -> None:
        self.delays.append(delay)
        if len(self.delays) >= self._count:
            self.reached.set()
            await asyncio.Event().wait()


class Body:
    """Raises the next of `errors` with each call, then returns."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.calls = 0

    async def __call__(self) -> None:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)


async def run_to_end(loop: BackgroundLoop) -> None:
    loop.start()
    async with asyncio.timeout(60):
        while loop.running:  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0)


async def test_body_that_raises_is_called_again() -> None:
    body, sleeps = Body(ValueError("a"), RuntimeError("b")), Sleeps(100)
    loop = BackgroundLoop("test", body, sleep=sleeps)
    await run_to_end(loop)
    assert body.calls == 3
    assert len(sleeps.delays) == 2


async def test_body_that_returns_ends_the_loop() -> None:
    body = Body()
    loop = BackgroundLoop("test", body)
    await run_to_end(loop)
    assert (body.calls, loop.failures, loop.last_error) == (1, 0, None)
    await loop.close()


async def test_a_loop_that_ended_is_no_longer_monitored() -> None:
    loop = BackgroundLoop("test", Body(*[ValueError()] * UNHEALTHY_AFTER), sleep=Sleeps(100))
    loop.start()
    assert loop in monitor.loops
    await run_to_end(loop)
    assert loop not in monitor.loops
    assert "test" not in monitor.failing
    assert loop.unexpected == 0


async def test_backoff_doubles_up_to_its_maximum_with_jitter() -> None:
    sleeps = Sleeps(100)
    body = Body(*(ValueError(str(number)) for number in range(80)))
    await run_to_end(BackgroundLoop("test", body, backoff_min=0.1, backoff_max=2.0, sleep=sleeps))
    full = [min(2.0, 0.1 * 2.0**number) for number in range(80)]
    assert all(0.5 * most <= delay <= most for delay, most in zip(sleeps.delays, full, strict=True))
    assert len(set(sleeps.delays)) > 40, "delays are spread"


async def test_failures_in_a_row_are_counted() -> None:
    sleeps, last = Sleeps(3), ValueError("third")
    loop = BackgroundLoop("test", Body(ValueError("first"), Unavailable("second"), last), sleep=sleeps)
    loop.start()
    await asyncio.wait_for(sleeps.reached.wait(), 60)
    assert (loop.failures, loop.last_error, loop.running) == (3, last, True)
    await loop.close()
    assert not loop.running


async def test_progress_resets_failures_and_backoff(caplog: pytest.LogCaptureFixture) -> None:
    sleeps = Sleeps(4)
    failures: list[int] = []

    async def body() -> None:
        if len(failures) == 3:
            loop.report_progress()
        failures.append(loop.failures)
        raise Unavailable("away")

    loop = BackgroundLoop("test", body, backoff_min=1.0, sleep=sleeps)
    with caplog.at_level(logging.INFO):
        loop.start()
        await asyncio.wait_for(sleeps.reached.wait(), 60)
    await loop.close()
    assert failures == [0, 1, 2, 0]
    assert sleeps.delays[2] >= 2.0
    assert sleeps.delays[3] <= 1.0
    assert "recovered after 3 failures" in caplog.text


@in_virtual_time
async def test_failure_after_a_long_run_is_the_first_in_a_row() -> None:
    sleeps = Sleeps(3)

    async def body() -> None:
        await pass_time(60.0)
        raise ValueError("late")

    loop = BackgroundLoop("test", body, backoff_max=10.0, sleep=sleeps)
    loop.start()
    await sleeps.reached.wait()
    assert loop.failures == 1
    await loop.close()


async def test_unexpected_error_is_logged_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    await run_to_end(BackgroundLoop("sweep", Body(KeyError("k"), KeyError("k")), sleep=Sleeps(100)))
    records = [record for record in caplog.records if "'sweep'" in record.getMessage()]
    assert [record.levelno for record in records] == [logging.ERROR] * 2
    assert all(record.exc_info is not None and record.exc_info[0] is KeyError for record in records)
    assert "2 in a row" in records[1].getMessage()


async def test_expected_error_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await run_to_end(BackgroundLoop("watch", Body(Unavailable("a"), Unavailable("b")), sleep=Sleeps(100)))
    records = [record for record in caplog.records if "'watch'" in record.getMessage()]
    assert [record.levelno for record in records] == [logging.WARNING, logging.DEBUG]
    assert not any(record.exc_info for record in records)


async def test_close_cancels_the_body() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def body() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    loop = BackgroundLoop("test", body)
    await loop.close()
    loop.start()
    loop.start()
    await started.wait()
    await loop.close()
    assert ended.is_set()
    await loop.close()


async def test_cancellation_of_what_the_body_awaits_is_a_failure() -> None:
    calls = 0

    async def body() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    await run_to_end(BackgroundLoop("test", body, sleep=Sleeps(100)))
    assert calls == 2


@in_virtual_time
async def test_close_with_grace_lets_the_body_return() -> None:
    closing, returned = asyncio.Event(), asyncio.Event()

    async def body() -> None:
        await closing.wait()
        await pass_time(4.0)
        returned.set()

    loop = BackgroundLoop("test", body)
    loop.start()
    closing.set()
    await loop.close(grace=5.0)
    assert returned.is_set()


@in_virtual_time
async def test_body_that_ignores_cancellation_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()

    async def body() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass

    loop = BackgroundLoop("stubborn", body)
    loop.start()
    await asyncio.sleep(0)
    await loop.close(timeout=5.0)
    assert "'stubborn' ignores its cancellation" in caplog.text
    release.set()


@in_virtual_time
async def test_a_loop_ends_if_its_body_turns_a_cancellation_into_an_error() -> None:
    calls = 0

    async def body() -> None:
        nonlocal calls
        calls += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Unavailable("the call failed") from None

    loop = BackgroundLoop("test", body)
    loop.start()
    await asyncio.sleep(0)
    await loop.close(timeout=5.0)
    assert (calls, loop.running) == (1, False)


async def test_loop_can_be_started_again_after_close() -> None:
    body = Body()
    loop = BackgroundLoop("test", body)
    await run_to_end(loop)
    await loop.close()
    await run_to_end(loop)
    assert body.calls == 2
