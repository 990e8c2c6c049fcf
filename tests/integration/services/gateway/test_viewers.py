"""Viewers of one run over Connect: they share the watch of the server-sent events, each with its own rights and pace."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon_services.gateway.watches import batches
from archon_services.gateway.watches import topic as topics
from archon_services.gateway.watches.runs import RunWatches
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, STRANGER, VIEWER, GatewayMesh, watching


class Responses:
    """The messages of a Connect stream, and the error at its end."""

    def __init__(self, response: httpx2.Response) -> None:
        self._pieces = response.aiter_bytes()
        self._left = b""
        self.error: dict[str, Any] | None = None

    async def next(self) -> dict[str, Any] | None:
        """Returns the next message; None at the end of the stream."""
        flags, size = struct.unpack(">BI", await self._read(5))
        message: dict[str, Any] = json.loads(await self._read(size) or b"{}")
        if flags & 2:
            self.error = message.get("error")
            return None
        return message

    async def events(self) -> list[dict[str, Any]]:
        """Returns the events up to the end."""
        events: list[dict[str, Any]] = []
        while (message := await self.next()) is not None:
            events += message.get("events", [])
        return events

    async def _read(self, size: int) -> bytes:
        while len(self._left) < size:
            self._left += await anext(self._pieces)
        read, self._left = self._left[:size], self._left[size:]
        return read


@asynccontextmanager
async def connected(
    http: httpx2.AsyncClient, request: dict[str, Any], headers: dict[str, str] | None = None
) -> AsyncIterator[Responses]:
    """A stream of `WatchRun` for the duration of the block."""
    body = json.dumps(request).encode()
    content = struct.pack(">BI", 0, len(body)) + body
    fields = {"content-type": "application/connect+json", **(headers or {})}
    async with http.stream("POST", f"{ORCHESTRATOR}/WatchRun", content=content, headers=fields) as response:
        assert response.status_code == 200
        yield Responses(response)


class Gate:
    """The role `held`, which writes and then waits until the gate is open."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def handle(self, task: TaskContext) -> str:
        task.write("hello")
        await self.opened.wait()
        return "done"


@pytest_asyncio.fixture
async def gate(served: GatewayMesh) -> AsyncIterator[Gate]:
    gate = Gate()
    async with AgentServer("held", handler=gate.handle, settings=AgentSettings(registry=served.mesh.registry.address)):
        yield gate
        gate.opened.set()


def numbers_of(events: list[dict[str, Any]]) -> list[int]:
    return [int(event["seq"]) for event in events if "seq" in event]


async def test_viewers_of_all_kinds_cost_the_orchestrator_one_watch(
    served: GatewayMesh, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, int]] = []
    frames = RunWatches.frames

    def counted(self: RunWatches, tenant: str, run_id: str, after: int, *, durable_only: bool = False) -> object:
        opened.append((tenant, after))
        return frames(self, tenant, run_id, after, durable_only=durable_only)

    monkeypatch.setattr(RunWatches, "frames", counted)
    async with served.http(OPERATOR) as http, served.http(VIEWER) as other, AsyncExitStack() as stack:
        run_id = await served.submit(http, roles=["held"])
        streams = [
            await stack.enter_async_context(connected(each, {"runId": run_id, "afterSeq": str(after)}))
            for each in (http, other)
            for after in (0, 0, 1)
        ]
        reader = await stack.enter_async_context(watching(http, f"/events/runs/{run_id}"))
        await asyncio.gather(reader.next(), *(stream.next() for stream in streams))
        gate.opened.set()
        rests = await asyncio.gather(*(stream.events() for stream in streams))
        last = [event for event in await reader.all() if event[1]][-1]
    assert {numbers_of(rest)[-1] for rest in rests} == {int(last[1])}
    assert all(stream.error is None for stream in streams)
    assert opened == [("default", 0)]


async def test_a_viewer_over_connect_gets_what_the_contract_says(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http, served.http(STRANGER) as stranger:
        run_id = await served.submit(http, wait="10s")
        async with connected(http, {"runId": run_id, "durableOnly": True}) as stream:
            events = await stream.events()
        assert numbers_of(events) == list(range(1, len(events) + 1)), "durable events alone"
        async with connected(http, {"runId": run_id, "afterSeq": str(len(events))}) as stream:
            assert (await stream.events(), stream.error) == ([], None)
        for request, client, code in (
            ({"runId": run_id, "afterSeq": "99"}, http, "out_of_range"),
            ({"runId": run_id, "afterSeq": "-1"}, http, "out_of_range"),
            ({"runId": "nothing"}, http, "not_found"),
            ({"runId": run_id}, stranger, "not_found"),
        ):
            async with connected(client, request) as stream:
                assert await stream.events() == []
                assert stream.error is not None and stream.error["code"] == code, request


async def test_a_viewer_over_connect_ends_with_its_token(
    served: GatewayMesh, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHECKED_EVERY", 0.05)
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["held"])
        async with connected(http, {"runId": run_id}) as stream:
            await stream.next()
            later = SimpleNamespace(time=lambda: time.time() + 3_600, monotonic=time.monotonic)
            monkeypatch.setattr("archon.security.authenticator.time", later)
            await stream.events()
            monkeypatch.undo()
    assert stream.error is not None and stream.error["code"] == "unauthenticated"


async def test_a_slow_viewer_over_connect_is_told_where_to_go_on(
    served: GatewayMesh, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MAX_FRAMES", 1)
    monkeypatch.setattr(batches, "BATCH_BYTES", 1)
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["held"])
        async with connected(http, {"runId": run_id}) as stream:
            seen = [event for _ in range(2) for event in (await stream.next() or {})["events"]]
            pending = topics.Topic.frame
            monkeypatch.setattr(topics.Topic, "frame", lambda self, position: pending(self, position - 5_000))
            gate.opened.set()
            seen += await stream.events()
            monkeypatch.setattr(topics.Topic, "frame", pending)
        assert stream.error is not None and stream.error["code"] == "resource_exhausted"
        last = numbers_of(seen)[-1]
        assert str(last) in stream.error["message"]
        async with connected(http, {"runId": run_id, "afterSeq": str(last)}) as stream:
            assert numbers_of(await stream.events())[0] == last + 1


async def test_a_watch_over_connect_ends_with_its_timeout(served: GatewayMesh, gate: Gate) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["held"])
        async with connected(http, {"runId": run_id}, {"connect-timeout-ms": "50"}) as stream:
            await stream.events()
    assert stream.error is not None and stream.error["code"] == "deadline_exceeded"


async def test_a_dead_orchestrator_ends_a_watch_over_connect(served: GatewayMesh, gate: Gate) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["held"])
        async with connected(http, {"runId": run_id}) as stream:
            await stream.next()
            await served.mesh.orchestrator.kill()
            seen = await stream.events()
            await served.mesh.orchestrator.start()
        assert stream.error is not None and stream.error["code"] == "unavailable"
        gate.opened.set()
        last = max([1, *numbers_of(seen)])
        async with connected(http, {"runId": run_id, "afterSeq": str(last)}) as stream:
            events = await stream.events()
    assert events and stream.error is None
