"""Every background loop of every process survives an unexpected exception, or turns health to NOT_SERVING."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.background import UNHEALTHY_AFTER, BackgroundLoop, monitor
from archon.client import Client, answer_text
from archon.memory import MemoryGraphClient, WorkingMemoryClient
from archon.registry import RegistryClient
from archon_services.memory.app import memory_app
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.fixtures.waiting import eventually, until


@dataclass
class Members:
    """The addresses of a mesh whose members all run in this process, and their background loops."""

    registry: str
    memory: str
    orchestrator: str
    agent: str
    others: frozenset[BackgroundLoop]
    """Loops that ran before the mesh was started."""

    @property
    def loops(self) -> list[BackgroundLoop]:
        return sorted(monitor.loops - self.others, key=lambda loop: loop.name)


@pytest.fixture(params=["embedded", "servers"])
async def members(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Members]:
    etcd, memory_db, journal = "memory", str(tmp_path / "memory.db"), str(tmp_path / "journal.db")
    if request.param == "servers":
        etcd = request.getfixturevalue("etcd").address
        server: Any = request.getfixturevalue("postgres")
        memory_db, journal = (server.dsn(server.create_database()) for _ in range(2))
    others = frozenset(monitor.loops)
    async with AsyncExitStack() as stack:
        settings: dict[str, Any] = {"host": "127.0.0.1", "port": 0}
        registry = await stack.enter_async_context(
            registry_app(RegistrySettings(etcd=etcd, prefix=f"/{tmp_path.name}", **settings))
        )
        memory = await stack.enter_async_context(
            memory_app(MemorySettings(db=memory_db, registry=registry, **settings))
        )
        orchestrator = await stack.enter_async_context(
            orchestrator_app(OrchestratorSettings(journal=journal, registry=registry, memory=memory, **settings))
        )
        agent = AgentServer("echo", settings=AgentSettings(registry=registry, **settings))

        @agent.task
        async def echo(task: TaskContext) -> str:
            async with WorkingMemoryClient(memory, task.run_id) as values:
                await values.set("seen", task.text)
            return f"echo of {task.text}"

        await stack.enter_async_context(agent)
        directory = await stack.enter_async_context(RegistryClient(registry))
        await directory.pin_edges([("echo", "reader")])
        yield Members(registry, memory, orchestrator, agent.address, others)


async def runs(members: Members, text: str) -> None:
    """Runs a goal in a session, and waits until its answer is in the shared memory."""
    async with Client(members.orchestrator) as client:

        async def known() -> bool:
            run = (await client.submit(text, roles=["echo"], session_id="s", wait=10)).run
            assert answer_text(run) == f"echo of {text}", run.failure
            return True

        await eventually(known)
    async with MemoryGraphClient(members.memory, "s") as memory:

        async def published() -> bool:
            items = await memory.pull_for("reader")
            return [item.content for item in items] == [f"echo of {text}"]

        await eventually(published)


async def test_each_loop_goes_on_after_an_unexpected_exception(
    members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    await runs(members, "before")
    loops = members.loops
    assert len({loop.name for loop in loops}) >= 10
    for loop in loops:
        loop.inject(RuntimeError(f"injected into {loop.name}"))

    def not_failed() -> list[str]:  # `failures` is 0 again as soon as a loop has recovered
        texts = [record.getMessage() for record in caplog.records if record.name == "archon.background"]
        return [loop.name for loop in loops if not any(f"'{loop.name}' failed" in text for text in texts)]

    with suppress(TimeoutError):
        await until(lambda: not not_failed(), within=20)
    assert not not_failed()
    assert all(loop.running for loop in loops)
    await runs(members, "after")


async def test_a_loop_that_keeps_failing_turns_health_to_not_serving() -> None:
    recovered = asyncio.Event()

    async def body() -> None:
        await asyncio.sleep(0)
        if not recovered.is_set():
            raise RuntimeError("again")
        await asyncio.Event().wait()

    async with registry_app(RegistrySettings(etcd="memory", host="127.0.0.1", port=0)) as address:
        loop = BackgroundLoop("broken", body, backoff_min=0.001, backoff_max=0.05)
        loop.start()
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)

            async def status() -> int:
                return int((await stub.Check(health_pb2.HealthCheckRequest())).status)

            async def is_not_serving() -> bool:
                return await status() == health_pb2.HealthCheckResponse.NOT_SERVING

            async def is_serving() -> bool:
                return await status() == health_pb2.HealthCheckResponse.SERVING

            await eventually(is_not_serving)
            assert loop.unexpected >= UNHEALTHY_AFTER
            recovered.set()
            await eventually(is_serving)
        await loop.close()
