"""Thousands of registrations: dead ones delay no honest agent, and living ones are listed, watched and matched."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final

import grpc.aio
import pytest

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.api.agent.v1 import agent_service_pb2, session_pb2
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1.registry_pb2 import Registration as Message
from archon.client import Client, answer_text
from archon.interceptors import translated
from archon.registry import Capability, Registration, RegistryClient
from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.sessions import Session, SessionPool
from archon_services.orchestrator.sessions.dials import FIRST_GREETING_PLACE, MAX_GREETINGS, Dials, Place, Turn
from tests.fixtures.many_registrations import register_all
from tests.fixtures.ports import free_ports
from tests.fixtures.recording_inbox import RecordingInbox
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually, until

LIVING: Final = 20
"""Of so many instances one answers the orchestrator: it has a stream, and both ends share the cores with other tests."""

TOKEN: Final = "a secret of the owner"


def dead_instances(count: int) -> list[Message]:
    """Dead instances: nothing listens at their address. Half of them have the role of an honest agent; a tenth offers a
    capability, and one has a tag."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    registrations = [
        Message(instance_id=f"dead-{number:05}", role="worker" if number % 2 else "other", address=address)
        for number in range(count)
    ]
    for registration in registrations[::10]:
        registration.capabilities.add(id="rare")
    registrations[321].tags["place"] = "here"
    return registrations


@pytest.fixture(scope="module", params=[500, pytest.param(10_000, marks=pytest.mark.search)])
def many(request: pytest.FixtureRequest) -> int:
    """The number of dead instances."""
    return int(request.param)


@pytest.fixture(scope="module")
async def registry(many: int, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a registry with many instances."""
    process = ServiceProcess("archon_services.registry", tmp_path_factory.mktemp("registry"), ARCHON_ETCD="memory")
    try:
        await register_all(await process.start(), dead_instances(many), token=TOKEN)
        yield process.address
    finally:
        await process.close()


@pytest.fixture
async def directory(registry: str) -> AsyncIterator[RegistryClient]:
    async with RegistryClient(registry) as directory:
        yield directory


@pytest.fixture(scope="module")
async def orchestrator(registry: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of an orchestrator that has just been started."""
    home = tmp_path_factory.mktemp("orchestrator")
    process = ServiceProcess("archon_services.orchestrator", home, ARCHON_REGISTRY=registry, ARCHON_JOURNAL="memory")
    try:
        yield await process.start()
    finally:
        await process.close()


def is_listed(instance_id: str) -> bool:
    return instance_id.startswith("dead-")


async def test_all_of_many_instances_are_listed_and_watched(directory: RegistryClient, many: int) -> None:
    listed = [instance for instance in await directory.list_instances() if is_listed(instance.instance_id)]
    assert len({instance.instance_id for instance in listed}) == many
    async with aclosing(directory.watch()) as changes:
        snapshot = await anext(changes)
        assert snapshot.snapshot
        assert sum(is_listed(instance.instance_id) for instance in snapshot.instances) == many
        handle = await directory.register(Registration("newcomer", address="127.0.0.1:1"))
        while handle.instance_id not in {instance.instance_id for instance in (await anext(changes)).instances}:
            pass


async def test_the_right_one_of_many_instances_is_matched(directory: RegistryClient, many: int) -> None:
    matched = await directory.resolve("worker", tags={"place": "here"})
    assert [instance.instance_id for instance in matched] == ["dead-00321"]
    rare = await directory.resolve(capability="rare")
    assert sum(is_listed(instance.instance_id) for instance in rare) == many // 10


async def test_many_leases_are_renewed_by_a_few_messages(directory: RegistryClient, many: int) -> None:
    ids = [f"dead-{number:05}" for number in range(many)]
    batches = [ids[start : start + 250] for start in range(0, many, 250)]
    requests = (pb.KeepAliveRequest(instance_ids=batch, tokens=[TOKEN] * len(batch)) for batch in batches)
    answers: Any = translated(directory._stub.KeepAlive(requests))
    assert [sum(not lease.expired for lease in answer.leases) async for answer in answers] == [250] * (many // 250)


async def answer(task: TaskContext) -> str:
    return f"{task.text}, honestly"


async def test_an_honest_agent_among_many_dead_ones_gets_a_task(registry: str, orchestrator: str) -> None:
    honest = AgentServer("worker", handler=answer, settings=AgentSettings(registry=registry))
    async with Client(orchestrator) as client:
        try:
            await honest.start()
            run = await (await client.submit("a task", roles=["worker"])).result(20.0)
            assert answer_text(run) == "a task, honestly"
        finally:
            await honest.stop(0.0)


class AnsweringServer:
    """One server that answers Open for any instance; `opened` has those that it has answered."""

    def __init__(self) -> None:
        self.opened: set[str] = set()

    async def session(self, incoming: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Answers Open and heartbeats."""
        async for raw in incoming:
            for frame in agent_service_pb2.SessionRequest.FromString(raw).frames:
                if frame.HasField("open"):
                    instance_id = frame.open.instance_id
                    self.opened.add(instance_id)
                    yield _message(ready=session_pb2.Ready(instance_id=instance_id, protocol=1, max_tasks=1))
                elif frame.HasField("heartbeat"):
                    yield _message(heartbeat=session_pb2.Heartbeat(echo=frame.heartbeat.counter))

    async def serve(self, stack: AsyncExitStack) -> str:
        """Serves until the end of the stack; returns the address."""
        server = grpc.aio.server()
        handler: Any = grpc.stream_stream_rpc_method_handler(self.session)
        service = grpc.method_handlers_generic_handler("archon.api.agent.v1.AgentService", {"Session": handler})
        server.add_generic_rpc_handlers((service,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, 0)
        return f"127.0.0.1:{port}"


def _message(**frame: Any) -> bytes:
    return agent_service_pb2.SessionResponse(frames=[session_pb2.AgentFrame(**frame)]).SerializeToString()


async def test_living_agents_among_many_dead_ones_are_dialled_and_matched(
    registry: str, orchestrator: str, many: int
) -> None:
    living = AnsweringServer()
    needle = AgentServer(
        "living", handler=answer, capabilities=[Capability("needle")], settings=AgentSettings(registry=registry)
    )
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(orchestrator))
        address = await living.serve(stack)
        entries = [
            Message(instance_id=f"living-{number}", role="living", address=address) for number in range(many // LIVING)
        ]
        await register_all(registry, entries)
        await needle.start()
        stack.push_async_callback(needle.stop, 0.0)
        run = await (await client.submit("a task", capabilities=["needle"])).result(90.0)
        assert answer_text(run) == "a task, honestly"
        await until(lambda: len(living.opened) == many // LIVING, 90.0)


class Mute:
    """A server that accepts connections and never answers."""

    def __init__(self) -> None:
        self.accepted = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keeps the connection."""
        self.accepted += 1
        self._writers.append(writer)


@pytest.fixture
async def pool() -> AsyncIterator[SessionPool]:
    pool = SessionPool(orchestrator_id="o", inbox=RecordingInbox())
    yield pool
    await pool.close()


@pytest.mark.slow
async def test_connections_to_instances_that_never_answer_are_bounded(
    pool: SessionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled: list[Turn] = []
    take = Dials.take

    async def recorded(self: Dials, turn: Turn) -> Place:
        dialled.append(turn)
        return await take(self, turn)

    monkeypatch.setattr(Dials, "take", recorded)
    mute = Mute()
    server = await asyncio.start_server(mute.connected, "127.0.0.1", *free_ports(1), backlog=4_096)
    host, port = server.sockets[0].getsockname()
    began = asyncio.get_running_loop().time()
    pool.update([Registration("worker", instance_id=f"m{number}", address=f"{host}:{port}") for number in range(2_000)])
    await until(lambda: mute.accepted > 2 * MAX_GREETINGS, 60.0)
    assert asyncio.get_running_loop().time() - began > 2 * FIRST_GREETING_PLACE
    assert not dialled, "no channel is made to an instance that does not answer"
    server.close()


async def test_a_placement_does_not_visit_the_dead_instances_of_its_role(
    pool: SessionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    living, visited = AnsweringServer(), visits(monkeypatch)
    async with AsyncExitStack() as stack:
        address = await living.serve(stack)
        dead = [Registration("worker", instance_id=f"d{number}", address="127.0.0.1:1") for number in range(2_000)]
        pool.update(dead)
        pool.update([Registration("worker", instance_id="living", address=address)])

        async def connected() -> bool:
            return pool.alive("living")

        await eventually(connected, 60.0)
        before = visited()
        assert pool.reserve(Requirement("worker")) == ("living", None)
        assert visited() - before < 10


def visits(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Counts how often a session is asked for its free slots."""
    room: property = Session.__dict__["room"]
    count = 0

    def counted(session: Session) -> int:
        nonlocal count
        count += 1
        return int(room.__get__(session))

    monkeypatch.setattr(Session, "room", property(counted))
    return lambda: count
