"""Virtual time in a test's own event loop: order, jumps, everything that forbids a jump, and how a block ends."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from archon.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.bounded_cache import BoundedCache
from archon_mesh.engine.plan import SubTask, Task
from archon_mesh.llm import ToolCall
from archon_mesh.llm.wrappers import RateLimitedModel
from archon_mesh.planning import PlanExecutor, PlanFailed
from archon_mesh.testing import FaultyModel, ScriptedModel, VirtualTime, process_clock, virtual_time
from archon_mesh.tools import tool
from tests.fixtures.virtual_time import pass_time
from tests.fixtures.waiting import hold, run_ready_tasks
from tests.unit.mesh.planning.workers import FunctionWorker

# The loop of the session has sockets, which are open as long as it is.
pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.usefixtures("clock_put_back")]

SHORT = 0.05
"""Seconds of the machine."""


async def test_a_sleep_takes_no_time() -> None:
    began = process_clock.machine()
    async with VirtualTime() as clock:
        before = time.monotonic()
        await pass_time(3600)
        assert clock.now == 3600
        assert time.monotonic() - before == pytest.approx(3600)
    assert process_clock.machine() - began < 60


async def test_timers_fire_in_their_order_and_not_early() -> None:
    seen: list[tuple[str, float]] = []

    async def ring(name: str, *pauses: float) -> None:
        for pause in pauses:
            await pass_time(pause)
            seen.append((name, clock.now))

    async with VirtualTime() as clock, asyncio.TaskGroup() as tasks:
        tasks.create_task(ring("a", 30, 30))
        tasks.create_task(ring("b", 20, 20, 5))
        await clock.advance(29.999)
        assert seen == [("b", 20)]
        await clock.advance(0.001)
        assert seen == [("b", 20), ("a", 30)]
        await clock.advance(60)
        assert seen == [("b", 20), ("a", 30), ("b", 40), ("b", 45), ("a", 60)]
        assert clock.now == 90


async def test_advance_returns_when_all_that_is_due_has_run() -> None:
    seen: list[str] = []

    async def work() -> None:
        await pass_time(10)
        await run_ready_tasks(20)
        await asyncio.to_thread(time.sleep, SHORT)
        seen.append("done")

    async with VirtualTime() as clock:
        task = asyncio.create_task(work())
        await clock.advance(10)
        assert seen == ["done"]
        await clock.advance(0)
        await task


async def test_two_calls_of_advance_return_at_their_times() -> None:
    ends: list[float] = []

    async def advance(seconds: float) -> None:
        await clock.advance(seconds)
        ends.append(clock.now)

    async with VirtualTime() as clock:
        await asyncio.gather(advance(20), advance(5), advance(20))
    assert ends == [5, 20, 20]
    assert clock.now == 20


async def test_years_pass_in_days() -> None:
    async with VirtualTime() as clock:
        await pass_time(10 * 365 * 86_400)
        assert clock.now == 10 * 365 * 86_400
        began = process_clock.machine()
        await asyncio.gather(pass_time(45), clock.advance(45))
        assert process_clock.machine() - began < virtual_time.STILL, "no timer waits for the machine"


async def test_a_model_that_is_overloaded_is_asked_again_later() -> None:
    model = FaultyModel(ScriptedModel(["It is 45."]))
    async with VirtualTime() as clock, model.fault("rate_limited", times=2, retry_after=20):
        assert await Agent("clerk", model=model).run_async("15 * 3?") == "It is 45."
        assert 40 <= clock.now < 60
    assert model.failed == 2


async def test_the_limit_of_a_silent_model_passes() -> None:
    model = FaultyModel(ScriptedModel(["never"]))
    async with VirtualTime() as clock, model.fault("hangs"):
        with pytest.raises(DeadlineExceeded, match="sent no first token for 120 s"):
            await Agent("clerk", model=model).run_async("?")
        assert clock.now >= 120


async def test_the_limit_of_a_tool_passes() -> None:
    @tool(timeout=45)
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([ToolCall("1", "wait", "{}"), "It does not answer."])
    async with VirtualTime() as clock:
        assert await Agent("clerk", model=model, tools=[wait]).run_async("?") == "It does not answer."
        assert clock.now == 45


async def test_attempts_and_pauses_of_a_plan_pass() -> None:
    async def never(message: str) -> str:
        await asyncio.Event().wait()
        return "never"

    async with VirtualTime() as clock:
        executor = PlanExecutor(FunctionWorker(think=never), max_attempts=3, timeout=600.0)
        with pytest.raises(PlanFailed):
            await executor.execute(Task("t", "q", "g", (SubTask("a", "do it"),)))
        assert 1800 <= clock.now < 1900


async def test_default_clocks_follow_though_they_were_made_before() -> None:
    cache = BoundedCache[str, str]()
    cache.put("a", "x", seconds=60.0)
    model = RateLimitedModel(ScriptedModel(["a", "b"]), requests_per_minute=1)
    agent = Agent("clerk", model=model)
    async with VirtualTime() as clock:
        await agent.run_async("1")
        assert cache.get("a") == "x"
        await agent.run_async("2")
        assert clock.now >= 59
        await clock.advance(2)
        assert cache.get("a") is None


# What is outside of the event loop


async def test_a_function_in_a_thread_is_waited_for() -> None:
    async with VirtualTime() as clock, asyncio.timeout(600):
        await asyncio.to_thread(time.sleep, SHORT)
        assert clock.now == 0

        @tool
        def slow() -> str:
            """Takes its time."""
            time.sleep(SHORT)
            return "done"

        model = ScriptedModel([ToolCall("1", "slow", "{}"), "It is done."])
        assert await Agent("clerk", model=model, tools=[slow]).run_async("?") == "It is done."
        assert clock.now == 0


async def test_a_thread_that_calls_the_loop_is_waited_for() -> None:
    loop = asyncio.get_running_loop()
    called = asyncio.Event()

    def work() -> None:
        time.sleep(SHORT)
        loop.call_soon_threadsafe(called.set)

    async with VirtualTime() as clock, asyncio.timeout(600):
        threading.Thread(target=work).start()
        await called.wait()
        assert clock.now == 0


async def test_a_process_is_waited_for() -> None:
    async with VirtualTime() as clock, asyncio.timeout(600):
        process = await asyncio.create_subprocess_exec("/bin/sleep", str(SHORT))
        assert await process.wait() == 0
        assert clock.now == 0


async def test_an_answer_at_a_socket_is_waited_for() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.to_thread(time.sleep, SHORT)
        writer.write(b"yes")
        writer.close()

    async with VirtualTime() as clock, asyncio.timeout(600):
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b"yes"
        assert clock.now == 0
        writer.close()
        server.close()
        await pass_time(60)
        assert clock.now == 60, "no socket is open any more"


async def test_an_open_socket_ends_a_block_that_waits_for_time() -> None:
    with pytest.raises(FailedPrecondition, match=r"the socket of port \d+; a mesh is moved by `InProcessMesh.advance`"):
        async with VirtualTime(patience=SHORT):
            server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
            try:
                await pass_time(3600)
            finally:
                server.close()


async def test_a_slow_thread_ends_a_block_that_has_no_patience() -> None:
    go_on = threading.Event()
    with pytest.raises(FailedPrecondition, match="a function in an executor"):
        async with VirtualTime(patience=SHORT):
            try:
                await asyncio.to_thread(go_on.wait)
            finally:
                go_on.set()


async def test_time_passes_as_the_machines_while_a_socket_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "STILL", SHORT)
    async with VirtualTime() as clock:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT):
                await asyncio.Event().wait()
        assert clock.now >= SHORT
        server.close()


# Tests that would never end


async def test_a_test_that_nothing_wakes_is_ended() -> None:
    with pytest.raises(FailedPrecondition, match="nothing will wake it: no timer is set"):
        async with VirtualTime(patience=SHORT):
            await asyncio.Event().wait()


async def test_a_test_that_waits_beside_a_heartbeat_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "MAX_JUMPS", 100)

    async def beat() -> None:
        while True:
            await pass_time(0.5)

    with pytest.raises(FailedPrecondition, match="time has jumped 100 times, by 250 s in all"):
        async with VirtualTime() as clock:
            beating = asyncio.create_task(beat())
            await clock.advance(200)
            try:
                await asyncio.Event().wait()
            finally:
                beating.cancel()


async def test_a_loop_that_polls_the_clock_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "STILL", SHORT)
    async with VirtualTime():
        end = time.monotonic() + SHORT
        while time.monotonic() < end:  # noqa: ASYNC110 - its subject
            await asyncio.sleep(0)


async def test_without_skipping_time_stands_still_until_it_is_moved() -> None:
    async with VirtualTime(skipping=False, patience=SHORT) as clock:
        sleeping = asyncio.create_task(pass_time(30))
        await run_ready_tasks()
        await clock.advance(29)
        assert not sleeping.done()
        await clock.advance(1)
        assert sleeping.done()
        assert clock.now == 30
    with pytest.raises(FailedPrecondition, match="time stands still: `advance` moves it"):
        async with VirtualTime(skipping=False, patience=SHORT):
            await pass_time(30)


# Ends, and bad inputs


async def test_a_block_that_raises_leaves_the_loop_as_it_was() -> None:
    loop: Any = asyncio.get_running_loop()
    selector, run_in_executor = loop._selector, loop.run_in_executor
    with pytest.raises(ZeroDivisionError):
        async with VirtualTime():
            await pass_time(1)
            raise ZeroDivisionError
    assert loop._selector is selector
    assert loop.run_in_executor == run_in_executor
    async with VirtualTime() as clock:
        await pass_time(5)
        assert clock.now == 5


async def test_the_clock_never_goes_back() -> None:
    async with VirtualTime():
        await pass_time(100)
        inside = time.monotonic()
        left = asyncio.create_task(asyncio.sleep(SHORT))
        before = asyncio.get_running_loop().call_later(3600, lambda: None)
    assert time.monotonic() >= inside
    await left  # its timer is not a hundred seconds away
    assert asyncio.get_running_loop().time() < before.when()
    before.cancel()


async def test_a_cancelled_test_is_cancelled() -> None:
    async def wait() -> None:
        async with VirtualTime():
            await asyncio.to_thread(hold_thread.wait)

    hold_thread = threading.Event()
    task = asyncio.create_task(wait())
    await run_ready_tasks()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hold_thread.set()
    assert not virtual_time.is_active()


async def test_a_second_block_is_refused() -> None:
    async with VirtualTime():
        with pytest.raises(FailedPrecondition, match="one clock has one owner"):
            await VirtualTime().__aenter__()
    clock = VirtualTime()
    async with clock:
        await clock.advance(1)
    async with clock:
        await clock.advance(2)
    assert clock.now == 2


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
async def test_time_goes_forward_only(seconds: float) -> None:
    async with VirtualTime() as clock:
        with pytest.raises(InvalidArgument, match="time goes forward"):
            await clock.advance(seconds)


async def test_time_moves_in_its_block_and_loop_only() -> None:
    clock = VirtualTime()
    with pytest.raises(FailedPrecondition, match="inside of its block"):
        await clock.advance(1)
    async with clock:
        with pytest.raises(FailedPrecondition, match="the same loop_scope"):
            await asyncio.to_thread(asyncio.run, clock.advance(1))
    with pytest.raises(InvalidArgument, match="patience must be above 0 s"):
        VirtualTime(patience=0)


def frozen() -> float:
    return 1.0


async def test_a_clock_that_another_library_freezes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = asyncio.get_running_loop()
    own = loop.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", frozen)
        patch.setattr(process_clock, "now", frozen)  # such libraries replace all names of a clock
        with pytest.raises(FailedPrecondition, match=r"replaced by .*test_virtual_time.frozen"):
            await VirtualTime().__aenter__()
    assert loop.time == own
    with pytest.raises(FailedPrecondition, match=r"time\.monotonic was replaced in the block"):
        async with VirtualTime():
            with monkeypatch.context() as patch:
                patch.setattr(time, "monotonic", frozen)
                await pass_time(10)


async def play(work: Callable[[], Coroutine[Any, Any, None]]) -> float:
    async with VirtualTime() as clock:
        await work()
        return clock.now


async def test_computations_take_no_time() -> None:
    async def work() -> None:
        await pass_time(1)
        await hold(0)
        time.sleep(SHORT)  # noqa: ASYNC251 - as a computation
        await pass_time(1)

    assert await play(work) == 2
