"""What goes wrong between two meshes: loops, meshes that are unreachable or restart, answers that come twice or never,
runs whose task no gateway can cancel."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from archon import context
from archon.agent import AgentSettings, Question, QuestionTerms, TaskContext
from archon.client import answer_text
from archon.errors import Unavailable
from archon.federation import CHILD_RUN_KEY, MESHES_KEY, MeshGateway, RunChoice, gateway_server
from archon.federation.lineage import MAX_MESHES
from archon.federation.orphans import OrphanSearch
from archon.federation.other_mesh import OtherMesh, mesh_id_of
from archon.principal import Kind, Principal
from archon.secret_answers import seal
from archon.security.credentials import credentials_for
from archon.testing import FakeAgent, FakeOrchestrator
from archon.types import Failure, Run, TaskState
from archon_services.testing.local_service import LocalService
from tests.fixtures.mesh import Mesh
from tests.fixtures.ports import free_ports
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually, until
from tests.integration.sdk.federation.two_meshes import FAR, NEAR, TwoMeshes, ended, question_of, unique

pytestmark = pytest.mark.liveness


async def echo(task: TaskContext) -> str:
    return f"echo of {task.text}"


def failure_of(run: Run) -> Failure:
    """Returns the failure of a run that has failed."""
    assert run.failure is not None
    return run.failure


async def test_a_loop_through_two_meshes_is_refused(two_meshes: TwoMeshes) -> None:
    """near -> far -> near: the gateway of far knows by the lineage that near waits."""
    out, back = unique("out"), unique("back")
    calls: list[str] = []

    async def count(task: TaskContext) -> str:
        calls.append(task.run_id)
        return "reached"

    target = unique("target")
    await two_meshes.agent(two_meshes.near, target, count)
    await two_meshes.gateway(out, back)
    await two_meshes.gateway(back, out, mesh=two_meshes.far, to=two_meshes.near, name="near")
    handle = await two_meshes.near.client.submit("x", roles=[out], wait=20)
    failure = failure_of(handle.run)
    assert (failure.reason, failure.code) == ("DELEGATION_LOOP", "FAILED_PRECONDITION")
    assert failure.metadata["chain"] == f"{NEAR} -> {FAR} -> {NEAR}"
    assert calls == []
    assert handle.run.tasks[0].attempt == 1


async def test_a_chain_of_too_many_meshes_is_refused(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    await two_meshes.agent(two_meshes.far, far, echo)
    await two_meshes.gateway(role, far)
    for above, state in ((MAX_MESHES - 1, TaskState.COMPLETED), (MAX_MESHES, TaskState.FAILED)):
        metadata = {MESHES_KEY: ",".join(f"mesh-{number}" for number in range(above))}
        handle = await two_meshes.near.client.submit("x", roles=[role], metadata=metadata, wait=10)
        assert handle.run.state is state
    assert failure_of(handle.run).reason == "DELEGATION_TOO_DEEP"


async def test_a_quota_of_the_other_mesh_refuses_its_task(tmp_path: Path) -> None:
    """The task is tried again later, since the error has a delay."""
    async with AsyncExitStack() as stack:
        near, far = Mesh(tmp_path / "near"), Mesh(tmp_path / "far")
        for mesh in (near, far):
            mesh.home.mkdir()
            stack.push_async_callback(mesh.stop)
        quotas = tmp_path / "quotas.yaml"
        quotas.write_text("tenants: {default: {runs_per_day: 1}}")
        await near.start()
        await far.start(ARCHON_QUOTAS=str(quotas))
        meshes = TwoMeshes(near, far, stack)
        role, worker = unique("research"), unique("far")
        await meshes.agent(far, worker, echo)
        await meshes.gateway(role, worker)
        first = await near.client.submit("x", roles=[role], wait=10)
        assert first.run.state is TaskState.COMPLETED
        handle = await near.client.submit("x", roles=[role])

        async with aclosing(handle.events()) as events:
            async for event in events:
                if event.type == "retry":
                    failure = Failure.from_proto(event.proto.retry.failure)
                    break
        assert (failure.reason, failure.metadata["quota"]) == ("QUOTA_EXCEEDED", "runs_per_day")
        assert len(await far.client.list_runs()) == 1
        await handle.cancel()


@pytest.mark.search
async def test_a_mesh_that_never_answers_fails_the_task_typed(two_meshes: TwoMeshes) -> None:
    role = unique("research")
    async with MeshGateway("gone", "127.0.0.1:1", mesh_id=NEAR, patience=0.0) as gateway:
        settings = AgentSettings(registry=two_meshes.near.registry.address)
        await two_meshes.serve(gateway_server(gateway, role, settings=settings))
        handle = await two_meshes.near.client.submit("x", roles=[role])
        run = await handle.result(60)
    failure = failure_of(run)
    assert (failure.code, failure.kind) == ("UNAVAILABLE", "infrastructure.partition")
    assert "the mesh gone cannot be reached" in failure.message
    assert run.tasks[0].attempt == 3, "other attempts were made, which may go to other instances"


async def test_a_task_waits_for_a_mesh_that_starts_later(own_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    await own_meshes.agent(own_meshes.far, far, echo)
    await own_meshes.gateway(role, far)
    await own_meshes.far.orchestrator.kill()
    handle = await own_meshes.near.client.submit("x", roles=[role])

    async def dispatched() -> bool:
        return (await own_meshes.near.client.get(handle.run_id)).tasks[0].attempt == 1

    await eventually(dispatched)
    await own_meshes.far.orchestrator.start()
    run = await handle.result(30)
    assert (answer_text(run), run.tasks[0].attempt) == ("echo of x", 1)


async def test_a_restart_of_the_other_mesh_loses_no_event(own_meshes: TwoMeshes) -> None:
    """Others resubscribe from now on, and lose the events between."""
    role, far, asks = unique("research"), unique("far"), asyncio.Event()
    calls: list[int] = []

    async def ask(task: TaskContext) -> str:
        calls.append(task.attempt)
        asks.set()
        return f"{await task.ask('which?')}, and {await task.ask('why?')}"

    await own_meshes.agent(own_meshes.far, far, ask)
    await own_meshes.gateway(role, far)
    handle = await own_meshes.near.client.submit("x", roles=[role])
    first = await question_of(own_meshes.near, handle.run_id)
    child = await own_meshes.child_of(handle)
    await own_meshes.far.orchestrator.kill()
    await own_meshes.far.orchestrator.start()
    await own_meshes.near.client.respond(handle.run_id, first.input_id, "this")
    second = await question_of(own_meshes.near, handle.run_id, other_than=first.input_id)
    await own_meshes.near.client.respond(handle.run_id, second.input_id, "so")
    run = await handle.result(30)
    assert (answer_text(run), run.tasks[0].attempt) == ("this, and so", 1)
    assert calls == [1], "the run was not executed again"
    assert [each.run_id for each in await own_meshes.children_of(handle)] == [child.run_id]


@pytest.mark.parametrize("moved", [False, True], ids=["same port", "another port"])
async def test_a_mesh_that_stops_and_returns_has_its_runs_followed(own_meshes: TwoMeshes, moved: bool) -> None:
    """An orderly stop ends streams in another way than a crash; a mesh in a folder may have other ports afterwards."""
    role, far = unique("research"), unique("far")
    go_on, calls = asyncio.Event(), []

    async def wait(task: TaskContext) -> str:
        calls.append(task.attempt)
        await go_on.wait()
        return "once"

    await own_meshes.agent(own_meshes.far, far, wait)
    await own_meshes.gateway(role, far)
    handles = [await own_meshes.near.client.submit("x", roles=[role]) for _ in range(3)]
    await until(lambda: len(calls) == 3)
    orchestrator = own_meshes.far.orchestrator
    await orchestrator.stop()
    if moved:
        assert isinstance(orchestrator, LocalService)
        orchestrator.settings["port"] = free_ports(1)[0]
    await orchestrator.start()
    go_on.set()
    for handle in handles:
        run = await handle.result(30)
        assert (answer_text(run), run.tasks[0].attempt) == ("once", 1)
    assert calls == [1, 1, 1]


async def test_a_restart_of_this_mesh_does_not_touch_the_run(own_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    go_on, calls = asyncio.Event(), []

    async def wait(task: TaskContext) -> str:
        calls.append(task.attempt)
        await go_on.wait()
        return "once"

    await own_meshes.agent(own_meshes.far, far, wait)
    await own_meshes.gateway(role, far)
    handle = await own_meshes.near.client.submit("x", roles=[role])
    await until(lambda: bool(calls))
    await own_meshes.near.orchestrator.kill()
    await own_meshes.near.orchestrator.start()
    go_on.set()
    assert answer_text(await handle.result(30)) == "once"
    assert (calls, len(await own_meshes.children_of(handle))) == ([1], 1)


async def test_a_submit_whose_response_is_lost_makes_one_run(two_meshes: TwoMeshes) -> None:
    """A second attempt has less time and submits another payload under the same request id: it gets the same run."""
    role, far = unique("research"), unique("far")
    go_on, calls = asyncio.Event(), []

    async def wait(task: TaskContext) -> str:
        calls.append(task.attempt)
        await go_on.wait()
        return "once"

    await two_meshes.agent(two_meshes.far, far, wait)
    gateway = MeshGateway("far", two_meshes.far.orchestrator.address, mesh_id=NEAR, choice=RunChoice("agent", (far,)))
    async with (
        gateway,
        FakeAgent(role, [gateway.handle, gateway.handle]) as agent,
        FakeOrchestrator(agent.address) as peer,
    ):
        await peer.open()
        for attempt in (1, 2):
            await peer.assign(peer.ref("task-1", attempt=attempt), "x", remaining=100.0 / attempt)
            await until(lambda: bool(calls))
        go_on.set()
        result = await peer.result(peer.ref("task-1", attempt=2))
    assert (result.text, calls) == ("once", [1])


async def test_a_superseded_attempt_leaves_the_run_alone(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    go_on, calls = asyncio.Event(), []

    async def wait(task: TaskContext) -> str:
        calls.append(task.attempt)
        await go_on.wait()
        return "once"

    await two_meshes.agent(two_meshes.far, far, wait)
    server = await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    child = await two_meshes.child_of(handle)
    (attempt,) = server.attempts
    attempt.cancel()  # as CancelTask with the reason `superseded` does
    await until(lambda: not attempt.working)
    go_on.set()
    assert (await ended(two_meshes.far, child.run_id)).state is TaskState.COMPLETED


async def test_a_refused_answer_has_another_run(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")
    goals: list[str] = []

    async def write(task: TaskContext) -> str:
        goals.append(task.text)
        return '{"n": 1}' if "refused" in task.text else "no json"

    await two_meshes.agent(two_meshes.far, far, write)
    await two_meshes.gateway(role, far)
    schema = {"type": "object", "required": ["n"]}
    step = {"id": "s", "description": "count", "role": role, "output_schema": schema}
    handle = await two_meshes.near.client.submit(
        "x", strategy="plan", plan=json.dumps({"goal": "x", "subtasks": [step]}), wait=20
    )
    assert handle.run.state is TaskState.COMPLETED, handle.run.failure
    assert [("must be one JSON value" in goal, "refused" in goal) for goal in goals] == [(True, False), (True, True)]
    assert len(await two_meshes.children_of(handle)) == 2


async def test_the_policy_of_the_other_mesh_counts_without_an_answer(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def ask(task: TaskContext) -> str:
        terms = QuestionTerms(timeout=30.0, on_timeout="default", default_answer="green")
        first = await task.ask_question(Question("colour?", terms=terms))
        return f"{first.text}, {await task.ask('sure?')}"

    await two_meshes.agent(two_meshes.far, far, ask)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    first = await question_of(two_meshes.near, handle.run_id)
    terms = first.terms
    assert terms is not None
    assert (terms.on_timeout, terms.default_answer, 25 < terms.timeout < 35) == ("default", "green", True)
    await two_meshes.near.advance(terms.timeout + 1)
    second = await question_of(two_meshes.near, handle.run_id, other_than=first.input_id)
    await two_meshes.near.client.respond(handle.run_id, second.input_id, "yes")
    assert answer_text(await handle.result(20)) == "green, yes"


async def test_an_approval_crosses_with_its_decision(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def ask(task: TaskContext) -> str:
        answer = await task.ask_question(Question("pay?", is_approval=True, subject_json='{"amount": 5}'))
        return f"{answer.decision}: {answer.text}"

    await two_meshes.agent(two_meshes.far, far, ask)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    question = await question_of(two_meshes.near, handle.run_id)
    assert (question.is_approval, question.subject_json) == (True, '{"amount": 5}')
    await two_meshes.near.client.respond(handle.run_id, question.input_id, "no money", decision="reject")
    assert answer_text(await handle.result(20)) == "reject: no money"


async def test_a_secret_answer_crosses_encrypted(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def ask(task: TaskContext) -> str:
        return f"{len(await task.ask_secret('password?'))} characters"

    await two_meshes.agent(two_meshes.far, far, ask)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    question = await question_of(two_meshes.near, handle.run_id)
    await two_meshes.near.client.respond(handle.run_id, question.input_id, seal(question.schema_json, "hunter2"))
    assert answer_text(await handle.result(20)) == "7 characters"


async def test_a_question_answered_there_holds_up_no_run(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def ask(task: TaskContext) -> str:
        return await task.ask("which?")

    await two_meshes.agent(two_meshes.far, far, ask)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    await question_of(two_meshes.near, handle.run_id)
    child = await two_meshes.child_of(handle)
    await two_meshes.far.client.respond(child.run_id, child.questions[0].input_id, "that")
    run = await handle.result(20)
    assert answer_text(run) == "that"
    assert [question.state for question in run.closed_questions] == ["cancelled"]


async def test_a_run_cancelled_there_fails_the_task(two_meshes: TwoMeshes) -> None:
    role, far = unique("research"), unique("far")

    async def wait(task: TaskContext) -> str:
        await asyncio.Event().wait()
        return ""

    await two_meshes.agent(two_meshes.far, far, wait)
    await two_meshes.gateway(role, far)
    handle = await two_meshes.near.client.submit("x", roles=[role])
    child = await two_meshes.child_of(handle)
    await two_meshes.far.client.cancel(child.run_id)
    run = await handle.result(20)
    assert (run.state, failure_of(run).reason) == (TaskState.FAILED, "CANCELLED")
    assert failure_of(run).metadata[CHILD_RUN_KEY] == child.run_id


async def test_orphans_of_ended_tasks_are_found_and_cancelled(two_meshes: TwoMeshes) -> None:
    """The run is cancelled while there is no gateway that could cancel its child."""
    role, far = unique("research"), unique("far")

    async def wait(task: TaskContext) -> str:
        await asyncio.Event().wait()
        return ""

    await two_meshes.agent(two_meshes.far, far, wait)
    gateway = await two_meshes.gateway(role, far)
    orphaned = await two_meshes.near.client.submit("x", roles=[role])
    child = await two_meshes.child_of(orphaned)
    await gateway.stop(0.0)
    await two_meshes.near.client.cancel(orphaned.run_id)
    await orphaned.result(10)
    assert not (await two_meshes.far.client.get(child.run_id)).state.final
    await two_meshes.gateway(role, far)
    alive = await two_meshes.near.client.submit("x", roles=[role])
    other = await two_meshes.child_of(alive)
    foreign = await two_meshes.far.client.submit("x", roles=[far])
    near = OtherMesh("near", lambda: two_meshes.near.orchestrator.address)
    far_mesh = OtherMesh("far", lambda: two_meshes.far.orchestrator.address)
    search = OrphanSearch(near, far_mesh, NEAR)
    assert await search.search() == 1
    assert (await ended(two_meshes.far, child.run_id)).state is TaskState.CANCELED
    for run_id in (other.run_id, foreign.run_id):
        assert not (await two_meshes.far.client.get(run_id)).state.final
        await two_meshes.far.client.cancel(run_id)
    for mesh in (near, far_mesh):
        await mesh.close()


async def test_the_token_of_this_mesh_never_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_meshes: TwoMeshes
) -> None:
    keys = TestKeys(tmp_path)
    monkeypatch.setenv("ARCHON_TOKEN", keys.tokens(Principal(Kind.SERVICE, "ours")))
    asked: list[str] = []

    def address() -> str:
        asked.append("x")
        return two_meshes.far.orchestrator.address

    with context.serving(replace(context.current(), identity="ann")):
        assert ("archon-identity", "ann") in credentials_for("127.0.0.1:1", "services").metadata()
        gateway = MeshGateway("far", address)
        assert gateway.credentials.metadata() == ()
        theirs = keys.credentials(Principal(Kind.OPERATOR, "gateway"))
        assert [key for key, _ in MeshGateway("far", address, credentials=theirs).credentials.metadata()] == [
            "authorization"
        ]
        vouching = keys.credentials(Principal(Kind.SERVICE, "gateway"))
        assert ("archon-identity", "ann") in MeshGateway("far", address, credentials=vouching).credentials.metadata()


async def test_the_id_of_a_mesh_is_asked_of_its_orchestrator(
    two_meshes: TwoMeshes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await mesh_id_of(two_meshes.far.orchestrator.address) == ""
    monkeypatch.setenv("ARCHON_MESH", "abcdef")
    assert await mesh_id_of(two_meshes.far.orchestrator.address) == "abcdef"
    with pytest.raises(Unavailable):
        await mesh_id_of("127.0.0.1:1")
