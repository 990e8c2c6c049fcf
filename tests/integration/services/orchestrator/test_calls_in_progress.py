"""The calls of an attempt are read while it goes on, and are there once when it has ended."""

from __future__ import annotations

import asyncio
import time
import uuid

from archon.agent import TaskContext
from archon.types import Usage
from archon_services.cli.commands.show import _get
from archon_services.cli.render.run_report import run_report
from archon_services.cli.target.mesh import Target
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe

USAGE = Usage(input_tokens=120, output_tokens=7, model_calls=1)


async def test_calls_of_an_attempt_are_shown_before_it_ends(mesh: Mesh, troupe: Troupe) -> None:
    role, may_end = f"slow-{uuid.uuid4().hex[:6]}", asyncio.Event()

    async def work(task: TaskContext) -> str:
        task.record_model_call("m", {"messages": []}, {"text": "Hm."}, started=time.time(), seconds=0.1, usage=USAGE)
        task.record_tool_call("look", {}, "seen", started=time.time(), seconds=0.1)
        await may_end.wait()
        task.record_tool_call("look", {}, "seen again", started=time.time(), seconds=0.1)
        return "done"

    await troupe(role, work)
    handle = await mesh.client.submit("a goal", roles=[role])

    async def recorded() -> list[str]:
        return [record.target async for record in mesh.client.records(handle.run_id)]

    async def both() -> bool:
        return await recorded() == ["m", "look"]

    await eventually(both)
    run, view, calls = await _get(Target(mesh.orchestrator.address, mesh.memory.address), handle.run_id)
    assert not run.HasField("end_time")
    (line,) = [text for text, _ in run_report(run, time.time(), view, calls=calls) if role in text and "──" in text]
    assert "1 model call and 1 tool call so far, tokens 120 in, 7 out" in line
    may_end.set()
    await handle.result(timeout=20)
    assert await recorded() == ["m", "look", "look"]


async def test_calls_from_the_thread_of_a_plain_function_are_shown(mesh: Mesh, troupe: Troupe) -> None:
    role, loop, may_end = f"plain-{uuid.uuid4().hex[:6]}", asyncio.get_running_loop(), asyncio.Event()

    def work(task: TaskContext) -> str:
        task.record_tool_call("look", {}, "seen", started=time.time(), seconds=0.1)
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()
        return "done"

    await troupe(role, work)
    handle = await mesh.client.submit("a goal", roles=[role])

    async def recorded() -> bool:
        return [record.target async for record in mesh.client.records(handle.run_id)] == ["look"]

    await eventually(recorded)
    may_end.set()
    await handle.result(timeout=20)
