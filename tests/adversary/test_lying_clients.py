"""Clients of the services that lie, over bare stubs: ids, tokens and metadata that they made up get typed errors, and the
runs, items and registrations of others are unharmed."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import grpc.aio
import pytest

from archon import status
from archon.agent import Question, TaskContext
from archon.api.agent.v1 import agent_pb2, agent_service_pb2, agent_service_pb2_grpc
from archon.api.common.v1 import common_pb2
from archon.api.memory.v1 import memory_graph_service_pb2 as graph_pb2
from archon.api.memory.v1 import memory_graph_service_pb2_grpc, memory_pb2, working_memory_service_pb2_grpc
from archon.api.memory.v1 import working_memory_service_pb2 as working_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.api.registry.v1 import registry_service_pb2 as registry_pb2
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.client import RunHandle, answer_text
from archon.types import Run, RunQuestion, TaskState
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.replicas import ProcessReplicas
from tests.fixtures.waiting import eventually, until
from tests.integration.services.orchestrator.troupe import Troupe, durable

COMPLETED = TaskState.COMPLETED
FORBIDDEN = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}
RELAYED = (("archon-relayed", "1"),)


class Stubs:
    """Bare stubs of every service of a mesh: no interceptors, no options."""

    def __init__(self, mesh: ProcessMesh, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.orchestrator: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(
            self._channel(mesh.orchestrator.address)
        )
        self.registry: Any = registry_service_pb2_grpc.RegistryServiceStub(self._channel(mesh.registry.address))
        memory = self._channel(mesh.memory.address)
        self.items: Any = memory_graph_service_pb2_grpc.MemoryGraphServiceStub(memory)
        self.working: Any = working_memory_service_pb2_grpc.WorkingMemoryServiceStub(memory)
        self.agent: Any = agent_service_pb2_grpc.AgentServiceStub(self._channel(mesh.processes[0].address))

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(address)
        self._stack.push_async_callback(channel.close)
        return channel


@pytest.fixture
async def stubs(mesh: ProcessMesh) -> AsyncIterator[Stubs]:
    async with AsyncExitStack() as stack:
        yield Stubs(mesh, stack)


@pytest.fixture(autouse=True)
async def _unharmed(mesh: ProcessMesh) -> AsyncIterator[None]:
    """After each test an honest run completes, and no log has a traceback."""
    yield
    run = (await mesh.client.submit("honest", roles=["requirements"], wait=10)).run
    assert (run.state, answer_text(run)) == (COMPLETED, "requirements()")
    for process in (mesh.registry, mesh.memory, mesh.orchestrator, *mesh.processes):
        assert "Traceback" not in process.log.read_text(), process.log


async def refused(call: Any) -> str:
    """Returns the reason for which a call or a stream failed; empty if it succeeded."""
    error: grpc.aio.AioRpcError | None = None
    try:
        if isinstance(call, Awaitable):
            await call
        else:
            async for _ in call:
                pass
    except grpc.aio.AioRpcError as raised:
        error = raised
    assert error is None or error.code() not in FORBIDDEN, error
    return "" if error is None else status.from_rpc_error(error).reason


def goal(text: str = "x") -> list[common_pb2.Part]:
    return [common_pb2.Part(text=text)]


# Ids


@pytest.mark.parametrize("run_id", ["", "no-such-run", "../../etc/passwd", "x" * 100_000, "é\u202e", "%s%n\x00"])
async def test_a_run_that_does_not_exist_is_unknown_to_every_call(stubs: Stubs, run_id: str) -> None:
    orchestrator = stubs.orchestrator
    calls = [
        orchestrator.GetRun(pb.GetRunRequest(run_id=run_id)),
        orchestrator.WatchRun(pb.WatchRunRequest(run_id=run_id)),
        orchestrator.WatchRun(pb.WatchRunRequest(run_id=run_id), metadata=RELAYED),
        orchestrator.ListRunRecords(pb.ListRunRecordsRequest(run_id=run_id)),
        orchestrator.CancelRun(pb.CancelRunRequest(run_id=run_id)),
        orchestrator.PauseRun(pb.PauseRunRequest(run_id=run_id)),
        orchestrator.ResumeRun(pb.ResumeRunRequest(run_id=run_id)),
        orchestrator.Respond(pb.RespondRequest(run_id=run_id, input_id="q1", parts=goal())),
    ]
    assert {await refused(call) for call in calls} == {"UNKNOWN_RUN"}


async def asking(task: TaskContext) -> str | Question:
    """Asks one question, and answers with the person's answer."""
    return f"said {task.input_text}" if task.inputs else Question("which?")


async def question_of(mesh: ProcessMesh, handle: RunHandle) -> RunQuestion:
    questions: list[RunQuestion] = []

    async def look() -> bool:
        questions[:] = (await mesh.client.get(handle.run_id)).questions
        return bool(questions)

    await eventually(look)
    return questions[0]


async def test_an_answer_counts_only_for_the_question_of_its_run(
    mesh: ProcessMesh, troupe: Troupe, stubs: Stubs
) -> None:
    role = f"asking-{uuid.uuid4().hex[:6]}"
    await troupe(role, asking)
    ours, theirs = [await mesh.client.submit("x", roles=[role]) for _ in range(2)]
    mine, other = await question_of(mesh, ours), await question_of(mesh, theirs)
    for input_id in (other.input_id, f"{theirs.run_id}.1", "q1", "1", mine.input_id + " ", mine.input_id.upper() + "x"):
        answer = pb.RespondRequest(run_id=ours.run_id, input_id=input_id, parts=goal("forged"))
        assert await refused(stubs.orchestrator.Respond(answer)) == "FAILED_PRECONDITION"
    for handle, question, text in ((ours, mine, "a"), (theirs, other, "b")):
        await mesh.client.respond(handle.run_id, question.input_id, text)
        assert answer_text(await handle.result(timeout=10)) == f"said {text}"


async def test_a_request_id_of_another_payload_or_call_changes_nothing(
    mesh: ProcessMesh, troupe: Troupe, stubs: Stubs
) -> None:
    role = f"asking-{uuid.uuid4().hex[:6]}"
    await troupe(role, asking)
    name = f"request-{uuid.uuid4().hex}"
    first = pb.SubmitRunRequest(request_id=name, goal=goal("first"), roles=[role])
    run = (await stubs.orchestrator.SubmitRun(first)).run
    run_id = run.run_id
    again = pb.SubmitRunRequest(request_id=name, goal=goal("second"), roles=[role])
    assert await refused(stubs.orchestrator.SubmitRun(again)) == "REQUEST_ID_REUSED"
    assert (await stubs.orchestrator.SubmitRun(first)).run.run_id == run_id
    handle = RunHandle(mesh.client, run)
    question = await question_of(mesh, handle)
    # The id of a submit may be that of an answer and of a publish: each call has ids of its own.
    answer = pb.RespondRequest(request_id=name, run_id=run_id, input_id=question.input_id, parts=goal("left"))
    assert await refused(stubs.orchestrator.Respond(answer)) == ""
    answer.parts[0].text = "right"
    assert await refused(stubs.orchestrator.Respond(answer)) in ("REQUEST_ID_REUSED", "FAILED_PRECONDITION")
    publish = graph_pb2.PublishItemsRequest(
        scope=name, request_id=name, items=[memory_pb2.PublishItem(role="requirements", content="one")]
    )
    assert await refused(stubs.items.PublishItems(publish)) == ""
    publish.items[0].content = "two"
    assert await refused(stubs.items.PublishItems(publish)) == "REQUEST_ID_REUSED"
    assert answer_text(await handle.result(timeout=10)) == "said left"


@pytest.mark.parametrize("after", [-1, -(2**63), 2**31, 2**53, 2**63 - 1])
async def test_a_position_that_no_watch_can_have_is_refused(mesh: ProcessMesh, stubs: Stubs, after: int) -> None:
    run_id = (await mesh.client.submit("x", roles=["requirements"], wait=10)).run.run_id
    watch = pb.WatchRunRequest(run_id=run_id, after_seq=after)
    assert await refused(stubs.orchestrator.WatchRun(watch)) == "OUT_OF_RANGE"
    call = stubs.orchestrator.Converse(iter([pb.ConverseRequest(correlation_id="c", watch=watch)]))
    reasons = [
        status.from_failure(reply.failure).reason
        async for response in call
        for reply in response.replies
        if reply.HasField("failure")
    ]
    assert reasons == ["OUT_OF_RANGE"]
    watching = stubs.registry.Watch(registry_pb2.WatchRequest(from_revision=after), timeout=5)
    assert (await watching.read()).snapshot, "a revision that never was starts with a snapshot"
    watching.cancel()


# Page tokens


def forged(token: str, position: object) -> str:
    """The token with another position."""
    bound, _ = json.loads(base64.urlsafe_b64decode(token))
    return base64.urlsafe_b64encode(json.dumps([bound, position]).encode()).decode()


POSITIONS: list[object] = [
    *(None, True, -1.5, float("nan"), float("inf"), 10**30, "x", "\ud800", "\x00", "x" * 10_000),
    *([], [1], ["a", "b"], [1, 2], [{}, []], {"a": 1}, [10**400, "x"], [0.0, "\ud800"], ["\ud800", "x"], [[], []]),
]


@pytest.mark.parametrize("listing", ["runs", "records", "instances", "values"])
async def test_a_page_token_with_a_forged_position_is_refused(mesh: ProcessMesh, stubs: Stubs, listing: str) -> None:
    for _ in range(2):
        run_id = (await mesh.client.submit("x", roles=["requirements"], wait=10)).run.run_id
    for number in range(2):
        await stubs.working.SetValue(working_pb2.SetValueRequest(scope="s", key=f"k{number}", value_json="1"))
    lists: dict[str, tuple[Any, Any]] = {
        "runs": (stubs.orchestrator.ListRuns, pb.ListRunsRequest(page_size=1)),
        "records": (stubs.orchestrator.ListRunRecords, pb.ListRunRecordsRequest(page_size=1, run_id=run_id)),
        "instances": (stubs.registry.ListInstances, registry_pb2.ListInstancesRequest(page_size=1)),
        "values": (stubs.working.ListValues, working_pb2.ListValuesRequest(page_size=1, scope="s")),
    }
    method, request = lists[listing]
    token = (await method(request)).next_page_token or _token_of_records(run_id)
    for position in POSITIONS:
        request.page_token = forged(token, position)
        reason = await refused(method(request))
        assert reason in ("INVALID_PAGE_TOKEN", ""), position  # some position fits each list
    for other, (another, _) in lists.items():
        if other != listing:
            request.page_token = _token_of_records("another")
            assert await refused(method(request)) == "INVALID_PAGE_TOKEN", another
    for altered in (token[:-3], token + "A", "é", "[" * 3_000, token[::-1]):
        request.page_token = altered
        assert await refused(method(request)) in ("INVALID_PAGE_TOKEN", "")


def _token_of_records(run_id: str) -> str:
    from archon_services.common.paging import make_token

    return make_token(1, "records", run_id, "")


# Metadata and deadlines


METADATA: list[tuple[tuple[str, str | bytes], ...]] = [
    (("archon-tenant", "another"), ("archon-identity", "admin")),
    (("archon-tenant", "another"), ("archon-identity", "admin"), ("archon-mesh-secret", "")),
    (("archon-tenant", "another"), ("archon-mesh-secret", "guess"), ("archon-identity", "x" * 4_000)),
    (("traceparent", "garbage"), ("tracestate", ",,,=;" * 100)),
    (("traceparent", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"),),
    (("traceparent", "ff-" + "z" * 32 + "-1-1"), ("traceparent", "twice")),
    (("archon-relayed", "1"), ("archon-relayed", "2"), ("archon-timeout", "x")),
    (("grpc-previous-rpc-attempts", "-1"), ("archon-identity-bin", b"\xff\xfe")),
]


@pytest.mark.parametrize("metadata", METADATA)
async def test_metadata_gives_no_tenant_and_breaks_no_call(mesh: ProcessMesh, stubs: Stubs, metadata: Any) -> None:
    submit = pb.SubmitRunRequest(goal=goal(), roles=["requirements"])
    submit.wait.seconds = 10
    run = Run.from_proto((await stubs.orchestrator.SubmitRun(submit, metadata=metadata)).run)
    assert answer_text(run) == "requirements()"
    events = await durable(RunHandle(mesh.client, run))
    assert "admin" not in str(events)
    assert "another" not in str(events)
    for call in (
        stubs.orchestrator.GetRun(pb.GetRunRequest(run_id=run.run_id), metadata=metadata),
        stubs.orchestrator.WatchRun(pb.WatchRunRequest(run_id=run.run_id), metadata=metadata),
        stubs.registry.ListInstances(registry_pb2.ListInstancesRequest(), metadata=metadata),
        stubs.items.PullItems(graph_pb2.PullItemsRequest(scope="s", role="requirements"), metadata=metadata),
        stubs.agent.Describe(agent_service_pb2.DescribeRequest(), metadata=metadata),
    ):
        assert await refused(call) in ("", "UNAVAILABLE")  # a relayed watch of a run that is not driven here


@pytest.mark.parametrize("timeout", [0.0, 0.000001, 1e9])
async def test_an_absurd_deadline_is_a_typed_error_or_harmless(stubs: Stubs, timeout: float) -> None:
    submit = pb.SubmitRunRequest(goal=goal(), roles=["requirements"])
    submit.wait.seconds = 10
    calls = [
        stubs.orchestrator.SubmitRun(submit, timeout=timeout),
        stubs.orchestrator.ListRuns(pb.ListRunsRequest(), timeout=timeout),
        stubs.registry.ListInstances(registry_pb2.ListInstancesRequest(), timeout=timeout),
        stubs.items.PullItems(graph_pb2.PullItemsRequest(scope="s", role="requirements"), timeout=timeout),
        stubs.agent.RunTask(agent_service_pb2.RunTaskRequest(task=agent_pb2.AssignTask(input=goal())), timeout=timeout),
    ]
    # A call may end before its connection is ready; gRPC counts deadlines in milliseconds, and some calls take less.
    expected = {""} if timeout > 1 else {"", "DEADLINE_EXCEEDED", "UNAVAILABLE"}
    assert {await refused(call) for call in calls} <= expected


# A client that claims to be a replica


async def test_a_watch_that_claims_to_be_relayed_gets_the_runs_events(
    mesh: ProcessMesh, troupe: Troupe, stubs: Stubs
) -> None:
    role, release = f"slow-{uuid.uuid4().hex[:6]}", asyncio.Event()

    async def slow(task: TaskContext) -> str:
        await release.wait()
        return "done"

    await troupe(role, slow)
    handle = await mesh.client.submit("x", roles=[role])
    watch = stubs.orchestrator.WatchRun(pb.WatchRunRequest(run_id=handle.run_id), metadata=RELAYED)
    seen: list[int] = []
    async for message in watch:
        seen += [event.seq for event in message.events if event.seq]
        release.set()
    assert seen == [event.seq for event in await durable(handle)]
    late = stubs.orchestrator.WatchRun(pb.WatchRunRequest(run_id=handle.run_id), metadata=RELAYED)
    assert await refused(late) == "UNAVAILABLE", "the run has ended: it is not driven here"


@pytest.mark.slow
async def test_relayed_watches_at_every_replica_neither_loop_nor_break_others(
    process_replicas: ProcessReplicas,
) -> None:
    replicas = process_replicas
    gate = asyncio.Event()
    await replicas.agent("cook", gate=gate)
    handle = await replicas.client.submit("x", roles=["cook"])
    async with AsyncExitStack() as stack:
        calls: list[asyncio.Task[str]] = []
        for process in (replicas.orchestrator, replicas.second):
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(process.address))
            stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
            request = pb.WatchRunRequest(run_id=handle.run_id)
            calls += [asyncio.create_task(refused(stub.WatchRun(request, metadata=RELAYED))) for _ in range(50)]
        await until(lambda: sum(call.done() for call in calls) >= 50)
        gate.set()
        reasons = await asyncio.gather(*calls)
    assert sorted(set(reasons)) == ["", "UNAVAILABLE"], "the owner serves them, the other replica does not forward"
    assert answer_text(await handle.result(timeout=10)) == "cook()"
    events = [event.seq async for event in replicas.other.watch(handle.run_id) if event.seq]
    assert events == list(range(1, len(events) + 1))
    for process in (replicas.orchestrator, replicas.second):
        assert "Traceback" not in process.log.read_text()


# Memory and registry


async def test_a_stale_or_forged_event_of_a_run_is_fenced(mesh: ProcessMesh, stubs: Stubs) -> None:
    session = f"s-{uuid.uuid4().hex}"
    run = (await mesh.client.submit("x", roles=["requirements"], session_id=session, wait=10)).run

    async def items() -> list[memory_pb2.MemoryItem]:
        return list((await stubs.items.GetGraph(graph_pb2.GetGraphRequest(scope=session))).graph.items)

    async def published() -> bool:
        return bool(await items())

    await eventually(published)
    truth = await items()

    def forge(**fields: Any) -> Any:
        item = memory_pb2.PublishItem(role="requirements", content="a lie", **fields)
        return stubs.items.PublishItems(graph_pb2.PublishItemsRequest(scope=session, items=[item]))

    assert await refused(forge(run_id=run.run_id, epoch=0, seq=1)) == "STALE_EPOCH"
    assert await refused(forge(run_id=run.run_id, epoch=1, seq=1)) == "STALE_EPOCH"
    for fields in ({"epoch": 1}, {"seq": 1}, {"epoch": -1, "seq": 1}, {"epoch": 1, "seq": -1}, {"epoch": 1, "seq": 0}):
        name = {"run_id": run.run_id} if len(fields) == 2 else {}
        assert await refused(forge(**fields, **name)) == "INVALID_ARGUMENT"
    assert await items() == truth


async def test_an_invented_epoch_leaves_the_answers_of_a_run_right(mesh: ProcessMesh, stubs: Stubs) -> None:
    """Possible today: a client may publish as an event of any run, in an epoch above its owner's, to any session. The
    memory service then refuses what the run publishes. Its answers come from the journal."""
    session = f"s-{uuid.uuid4().hex}"
    handle = await mesh.client.submit("x", roles=["requirements"], session_id=session)
    item = memory_pb2.PublishItem(role="requirements", content="a lie", run_id=handle.run_id, epoch=2**62, seq=2**62)
    assert await refused(stubs.items.PublishItems(graph_pb2.PublishItemsRequest(scope=session, items=[item]))) == ""
    run = await handle.result(timeout=10)
    assert (run.state, answer_text(run)) == (COMPLETED, "requirements()")


async def test_pins_that_would_make_a_cycle_are_refused(mesh: ProcessMesh, stubs: Stubs) -> None:
    await mesh.agent("implementer", "requirements")
    before = (await stubs.registry.GetGraph(registry_pb2.GetGraphRequest())).graph.edges
    for edges in (
        [("implementer", "requirements")],
        [("implementer", "x"), ("x", "requirements")],
        [("requirements", "requirements")],
        [("a", "b"), ("b", "a")],
    ):
        pin = registry_pb2.PinEdgesRequest(edges=[common_pb2.Edge(upstream=up, downstream=down) for up, down in edges])
        assert await refused(stubs.registry.PinEdges(pin)) in ("CYCLE", "INVALID_ARGUMENT")
    after = (await stubs.registry.GetGraph(registry_pb2.GetGraphRequest())).graph.edges
    assert sorted(map(str, after)) == sorted(map(str, before))


async def test_a_stranger_cannot_end_an_agent_that_serves(mesh: ProcessMesh, stubs: Stubs) -> None:
    listed = (await stubs.registry.ListInstances(registry_pb2.ListInstancesRequest(role="requirements"))).instances
    (instance,) = listed
    end = registry_pb2.DeregisterInstanceRequest(instance_id=instance.instance_id, token="a guess that is long enough")
    assert await refused(stubs.registry.DeregisterInstance(end)) == "PERMISSION_DENIED"
    instance.address = "127.0.0.1:1"
    moved = registry_pb2.RegisterInstanceRequest(registration=instance)
    assert await refused(stubs.registry.RegisterInstance(moved)) in ("PERMISSION_DENIED", "INVALID_ARGUMENT")


async def test_commands_for_an_ended_run_change_nothing(mesh: ProcessMesh, stubs: Stubs) -> None:
    handle = await mesh.client.submit("x", roles=["requirements"], wait=10)
    run_id, events = handle.run_id, await durable(handle)
    orchestrator = stubs.orchestrator
    assert await refused(orchestrator.CancelRun(pb.CancelRunRequest(run_id=run_id, reason="x" * 10_000))) == ""
    assert await refused(orchestrator.PauseRun(pb.PauseRunRequest(run_id=run_id))) == "FAILED_PRECONDITION"
    assert await refused(orchestrator.ResumeRun(pb.ResumeRunRequest(run_id=run_id))) == "FAILED_PRECONDITION"
    answer = pb.RespondRequest(run_id=run_id, input_id=f"{run_id}.1", parts=goal())
    assert await refused(orchestrator.Respond(answer)) == "FAILED_PRECONDITION"
    assert await durable(handle) == events
