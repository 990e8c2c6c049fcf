"""Tasks that are runs of another mesh: what crosses between the two, over two meshes in one process."""

from __future__ import annotations

import asyncio
import time

import pytest

from archon import context
from archon.agent import Answer, TaskContext
from archon.client import answer_text
from archon.errors import InvalidArgument
from archon.federation import CHILD_MESH_KEY, CHILD_RUN_KEY, MESHES_KEY, RunChoice
from archon.types import Budget, Part, TaskState, Usage
from tests.fixtures.media import PNG
from tests.fixtures.waiting import until
from tests.integration.sdk.federation.two_meshes import NEAR, TwoMeshes, durable, ended, question_of, unique

pytestmark = pytest.mark.liveness


async def echo(task: TaskContext) -> str:
    return f"echo of {task.text}"


async def test_a_task_is_one_run_of_the_other_mesh(two_meshes: TwoMeshes) -> None:
    role = unique("research")
    await two_meshes.agent(two_meshes.far, role, echo)
    await two_meshes.gateway(role, role)
    handle = await two_meshes.near.client.submit("fish", roles=[role], wait=10)
    assert (handle.run.state, answer_text(handle.run)) == (TaskState.COMPLETED, "echo of fish")
    child = await two_meshes.child_of(handle)
    assert child.state is TaskState.COMPLETED
    assert child.metadata[MESHES_KEY] == NEAR
    (result,) = [event.proto.result for event in await durable(handle) if event.type == "result"]
    assert dict(result.metadata) == {CHILD_RUN_KEY: child.run_id, CHILD_MESH_KEY: "far"}


async def test_the_other_mesh_chooses_the_strategy_and_the_role(two_meshes: TwoMeshes) -> None:
    role, cook = unique("research"), unique("cook")
    await two_meshes.agent(two_meshes.far, cook, echo, description="Cooks soup")
    await two_meshes.gateway(role, choice=RunChoice(roles=(cook,)))
    handle = await two_meshes.near.client.submit("Cook a soup.", roles=[role], wait=10)
    assert answer_text(handle.run) == "echo of Cook a soup."


async def test_upstream_answers_and_files_reach_the_run(two_meshes: TwoMeshes) -> None:
    first, role, far = unique("first"), unique("research"), unique("far")
    seen: list[Part] = []

    async def look(task: TaskContext) -> Answer:
        seen.extend(task.parts)
        return Answer("a text", parts=[Part(raw=b"bytes", filename="a.bin"), Part(data_json='{"a": 1}')])

    async def draw(task: TaskContext) -> Answer:
        return Answer("a drawing", parts=[Part(raw=PNG, media_type="image/png", filename="a.png")])

    await two_meshes.agent(two_meshes.far, far, look)
    await two_meshes.agent(two_meshes.near, first, draw)
    gateway = await two_meshes.gateway(role, far)
    await two_meshes.near.directory.pin_edges([(first, gateway.role)])
    goal = [Part(text="look"), Part(raw=b"12", filename="n.bin")]
    try:
        handle = await two_meshes.near.client.submit(goal, roles=[first, role], strategy="pipeline", wait=10)
    finally:
        await two_meshes.near.directory.unpin_edges([(first, gateway.role)])
    assert [part.text or part.raw for part in seen] == ["look", b"12", f"Answer of {first}:\na drawing", PNG]
    (answer,) = handle.run.answers
    assert [part.raw or part.data_json or part.text for part in answer.parts] == [b"bytes", '{"a": 1}', "a text"]


async def test_several_answers_come_below_their_authors(two_meshes: TwoMeshes) -> None:
    role, one, two = unique("research"), unique("one"), unique("two")
    for each in (one, two):
        await two_meshes.agent(two_meshes.far, each, echo)
    await two_meshes.gateway(role, choice=RunChoice("pipeline", (one, two)))
    handle = await two_meshes.near.client.submit("fish", roles=[role], wait=10)
    assert sorted(part.text or "" for part in handle.run.answers[0].parts) == [
        f"{one}:\necho of fish",
        f"{two}:\necho of fish",
    ]


async def test_usage_of_the_run_is_usage_of_the_task(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def spend(task: TaskContext) -> str:
        for _ in range(2):
            usage = Usage(input_tokens=30, output_tokens=12, cost_micro_usd=7)
            task.record_model_call("scripted", {}, {}, started=time.time(), seconds=0.0, usage=usage)
        return "done"

    await two_meshes.agent(two_meshes.far, far, spend)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role], wait=10)
    usage = handle.run.usage
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls, usage.cost_micro_usd) == (60, 24, 2, 14)


async def test_the_budget_of_the_run_is_the_slice_of_the_attempt(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def spend(task: TaskContext) -> str:
        await task.reserve(tokens=2_000)
        return "rich"

    await two_meshes.agent(two_meshes.far, far, spend)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit(
        "x", roles=[role], budget=Budget(max_tokens=8_000, max_cost_micro_usd=800), wait=10
    )
    child = await two_meshes.child_of(handle)
    submitted = (await anext(two_meshes.far.client.watch(child.run_id))).proto.submitted
    assert (submitted.budget.max_tokens, submitted.budget.max_cost_micro_usd) == (1_000, 100)
    assert handle.run.state is TaskState.FAILED
    failure = handle.run.failure
    assert failure is not None
    assert (failure.reason, failure.metadata[CHILD_RUN_KEY]) == ("BUDGET_EXHAUSTED", child.run_id)


async def test_the_time_of_the_task_limits_the_run(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    stuck = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        stuck.set()
        await asyncio.Event().wait()
        return ""

    await two_meshes.agent(two_meshes.far, far, wait)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role], timeout=30)
    await stuck.wait()
    child = await two_meshes.child_of(handle)
    submitted = (await anext(two_meshes.far.client.watch(child.run_id))).proto.submitted
    assert 20 < submitted.timeout.seconds + submitted.timeout.nanos / 1e9 <= 30
    run = await two_meshes.near.advance_until(handle.result(60), 2.0)
    assert run.state is TaskState.FAILED
    child = await two_meshes.near.advance_until(ended(two_meshes.far, child.run_id), 0.5)
    assert child.state in (TaskState.FAILED, TaskState.CANCELED)


async def test_a_failure_has_the_reason_of_the_run_and_its_id(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    calls: list[int] = []

    async def fail(task: TaskContext) -> str:
        calls.append(task.attempt)
        raise InvalidArgument("no fish here", metadata={"fish": "none"})

    await two_meshes.agent(two_meshes.far, far, fail)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role], wait=10)
    child = await two_meshes.child_of(handle)
    (task,) = handle.run.tasks
    failure = task.failure
    assert failure is not None
    assert failure.code == "INVALID_ARGUMENT"
    assert failure.message == f"run {child.run_id} of the mesh far failed: no fish here"
    assert (failure.metadata["fish"], failure.metadata[CHILD_RUN_KEY]) == ("none", child.run_id)
    assert [cause.message for cause in failure.causes] == ["no fish here"]
    assert (task.attempt, calls) == (1, [1]), "the run is not executed again, here or there"


async def test_metadata_crosses_by_its_keys(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    await two_meshes.agent(two_meshes.far, far, echo)
    await two_meshes.gateway(role, far, metadata=("ticket", "dev.archon/user"))
    given = {"ticket": "4711", "secret": "x", "dev.archon/user": "ann", "dev.archon/other": "y"}
    handle = await two_meshes.near.client.submit("x", roles=[role], metadata=given, wait=10)
    child = await two_meshes.child_of(handle)
    crossed = {key: value for key, value in child.metadata.items() if key in given}
    assert crossed == {"ticket": "4711", "dev.archon/user": "ann"}


async def test_watchers_see_the_attempts_of_the_run(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    go_on = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        await go_on.wait()
        return "done"

    await two_meshes.agent(two_meshes.far, far, wait)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    shown: list[str] = []
    view = None
    async for view in handle.views():
        for task in view.tasks.values():
            shown += [tool for tool in task.tool_calls.values() if tool not in shown]
        if len(shown) == 2:
            go_on.set()
    assert shown == ["far", f"far/{far}"]
    child = await two_meshes.child_of(handle)
    (record,) = [record async for record in two_meshes.near.client.records(handle.run_id)]
    assert (record.target, child.run_id in record.proto.response_json) == ("mesh far", True)


async def test_a_question_of_the_run_is_one_of_the_task(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def ask(task: TaskContext) -> str:
        colours = [await task.ask(f"colour {number}?", schema_json='{"enum": ["red", "blue"]}') for number in (1, 2)]
        return " and ".join(colours)

    await two_meshes.agent(two_meshes.far, far, ask)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role], timeout=2.0)
    last = ""
    for number, colour in ((1, "red"), (2, "blue")):
        question = await question_of(two_meshes.near, handle.run_id, other_than=last)
        child = await two_meshes.child_of(handle)
        last = question.input_id
        assert question.prompt[0].text == f"colour {number}?"
        assert question.prompt[1].text == f"Asked by {far} of the mesh far, run {child.run_id}."
        assert question.schema_json == '{"enum": ["red", "blue"]}'
        await two_meshes.near.advance(3)  # longer than the run may take: its clock stands still
        await two_meshes.near.client.respond(handle.run_id, question.input_id, colour)
    assert answer_text(await handle.result(20)) == "red and blue"


async def test_a_cancelled_task_cancels_its_run_within_a_second(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    stopped = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    await two_meshes.agent(two_meshes.far, far, wait)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    child = await two_meshes.child_of(handle)
    await two_meshes.near.client.cancel(handle.run_id, "enough")
    async with asyncio.timeout(1.0):
        await stopped.wait()
    assert (await ended(two_meshes.far, child.run_id)).state is TaskState.CANCELED
    assert (await handle.result(10)).state is TaskState.CANCELED


async def test_a_task_cancelled_before_its_run_is_known_leaves_none(two_meshes: TwoMeshes) -> None:
    """Other systems forget a remote task that is cancelled before its first event."""
    role, far = unique("research"), unique("far")
    await two_meshes.agent(two_meshes.far, far, echo)
    handles = []
    await two_meshes.gateway(role, far)
    for _ in range(10):
        handle = await two_meshes.near.client.submit("x", roles=[role])
        handles.append(handle)
        await two_meshes.near.client.cancel(handle.run_id)
    for handle in handles:
        await handle.result(10)
        for child in await two_meshes.children_of(handle):
            assert (await ended(two_meshes.far, child.run_id)).state.final


async def test_a_drain_leaves_the_run_to_the_next_attempt(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    go_on, calls = asyncio.Event(), []

    async def wait(task: TaskContext) -> str:
        calls.append(task.attempt)
        await go_on.wait()
        return "done once"

    await two_meshes.agent(two_meshes.far, far, wait)
    first = await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    child = await two_meshes.child_of(handle)
    await until(lambda: bool(calls))
    await first.stop(0.0)
    assert not (await two_meshes.far.client.get(child.run_id)).state.final
    await two_meshes.gateway(role, far)
    go_on.set()
    run = await handle.result(20)
    assert (answer_text(run), run.tasks[0].attempt, calls) == ("done once", 2, [1])
    assert [each.run_id for each in await two_meshes.children_of(handle)] == [child.run_id]


async def test_an_answer_reaches_the_run_after_the_attempt_is_lost(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def ask(task: TaskContext) -> str:
        return f"{await task.ask('which?')} in attempt {task.attempt}"

    await two_meshes.agent(two_meshes.far, far, ask)
    first = await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    question = await question_of(two_meshes.near, handle.run_id)
    await first.stop(0.0)
    await two_meshes.near.client.respond(handle.run_id, question.input_id, "this")
    await two_meshes.gateway(role, far)
    assert answer_text(await handle.result(30)) == "this in attempt 1"
    child = await two_meshes.child_of(handle)
    events = [event.type async for event in two_meshes.far.client.watch(child.run_id)]
    assert events.count("input_given") == 1


async def test_a_task_and_its_run_are_one_trace(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    traces: list[str] = []

    async def look(task: TaskContext) -> str:
        traces.append(task.trace.traceparent)
        return "seen"

    await two_meshes.agent(two_meshes.far, far, look)
    await two_meshes.gateway(role, far)
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    with context.serving(context.CallContext(traceparent=f"00-{trace_id}-b7ad6b7169203331-01")):
        handle = await two_meshes.near.client.submit("x", roles=[role], wait=10)
    child = await two_meshes.child_of(handle)
    assert (handle.run.trace_id, child.trace_id) == (trace_id, trace_id)
    assert [trace.split("-")[1] for trace in traces] == [trace_id]
