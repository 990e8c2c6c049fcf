"""Streams of all protocols that follow one run: the gateway reads the run once, and each stream ends with its own rights."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from a2a.types import a2a_pb2

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import Unavailable, UnknownRun
from archon.types.run_event import RunEvent
from archon_services.gateway.identity.visitors import Visitors
from archon_services.gateway.settings import GatewaySettings
from archon_services.gateway.upstream import Upstream
from archon_services.gateway.watches import batches, hub
from archon_services.gateway.watches import topic as topics
from archon_services.gateway.watches.run_client import FollowingClient
from archon_services.gateway.watches.runs import WATCH_RUN, RunWatches
from archon_services.gateway.watches.topic import Topic
from archon_services.orchestrator.api.commands import Commands
from tests.fixtures.a2a_mesh import GRPC, HTTP_JSON, JSONRPC, calling, fold, state_of
from tests.fixtures.agui_mesh import Painter, front_end, input_of, user
from tests.fixtures.http_gateway import OPERATOR, VIEWER, GatewayMesh, gateway_mesh, settings_for, watching
from tests.fixtures.mcp_mesh import mcp_client, text_of
from tests.fixtures.waiting import until
from tests.integration.services.gateway.test_viewers import connected


class Studio:
    """A mesh with the role `painter`. `watches` are the watches that the orchestrator has served, `viewers` the streams
    that follow a run at the gateway."""

    def __init__(self, mesh: GatewayMesh, painter: Painter) -> None:
        self.mesh, self.painter = mesh, painter
        self.watches: list[pb.WatchRunRequest] = []
        self.viewers: list[str] = []

    async def begin(self, stack: AsyncExitStack) -> tuple[str, Any]:
        """Begins a run that waits for `released`, as a front end of AG-UI does. Returns its id and its stream."""
        self.painter.released.clear()
        ui = await stack.enter_async_context(front_end(self.mesh, OPERATOR))
        stream = await stack.enter_async_context(ui.open(input_of(user("wait here"))))
        started = await stream.until("RUN_STARTED")
        await stream.until("STEP_STARTED")
        return str(started["metadata"]["dev.archon/run-id"]), stream


@pytest_asyncio.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Studio]:
    painter = Painter()
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = Path(tmp_path_factory.mktemp("shared"))
        async with (
            gateway_mesh(folder, monkeypatch, requests_per_second=10_000.0) as mesh,
            painter.server(mesh),
        ):
            yield Studio(mesh, painter)


@pytest.fixture
def studio(shared: Studio, monkeypatch: pytest.MonkeyPatch) -> Studio:
    watch, viewing = Commands.watch, RunWatches.viewing
    shared.watches.clear()
    shared.viewers.clear()

    def watched(self: Commands, request: pb.WatchRunRequest, **options: Any) -> Any:
        shared.watches.append(request)
        return watch(self, request, **options)

    def viewed(self: RunWatches, tenant: str, run_id: str) -> AbstractAsyncContextManager[Topic]:
        shared.viewers.append(run_id)
        return viewing(self, tenant, run_id)

    monkeypatch.setattr(Commands, "watch", watched)
    monkeypatch.setattr(RunWatches, "viewing", viewed)
    return shared


async def test_ten_streams_of_six_protocols_cost_one_watch(studio: Studio) -> None:
    mesh = studio.mesh
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        run_id, ui = await studio.begin(stack)
        http = await stack.enter_async_context(mesh.http(OPERATOR))
        viewer = await stack.enter_async_context(mesh.http(VIEWER))
        events = [await stack.enter_async_context(watching(each, f"/events/runs/{run_id}")) for each in (http, viewer)]
        streams = [await stack.enter_async_context(connected(each, {"runId": run_id})) for each in (http, viewer)]
        tasks = []
        for binding in (JSONRPC, HTTP_JSON, GRPC):
            caller = await stack.enter_async_context(calling(mesh, OPERATOR, "", binding))
            tasks.append(group.create_task(_task(caller.subscribe(run_id))))
        called = []
        for era in ("2026-07-28", "legacy"):
            client = await stack.enter_async_context(mcp_client(mesh, OPERATOR, era))
            called.append(group.create_task(client.call_tool("run_get", {"run_id": run_id, "wait": 30})))
        await until(lambda: studio.viewers.count(run_id) == 10)
        studio.painter.released.set()
        sent = await asyncio.gather(*(reader.all() for reader in events), *(stream.events() for stream in streams))
        await ui.rest()
    assert (ui.outcome, ui.texts) == ("success", ["released"])
    assert all(sent) and [state_of(task.result()) for task in tasks] == ["completed"] * 3
    assert [text_of(call.result()) for call in called] == ["released"] * 2
    assert [watch.run_id for watch in studio.watches] == [run_id]


async def _task(events: AsyncIterator[a2a_pb2.StreamResponse]) -> a2a_pb2.Task:
    task = a2a_pb2.Task()
    async for event in events:
        fold(task, event)
    return task


@asynccontextmanager
async def following_client(studio: Studio, tenant: str = "default") -> AsyncIterator[FollowingClient]:
    """A client of a gateway of its own."""
    settings = GatewaySettings(**settings_for(studio.mesh.mesh))
    async with Upstream(settings) as upstream:
        watches = RunWatches(upstream)
        client = FollowingClient(settings.orchestrator, watches, lambda: (tenant, lambda: None))
        try:
            yield client
        finally:
            await client.close()
            await watches.close()


async def test_a_follower_that_comes_later_gets_no_pieces_of_before(studio: Studio) -> None:
    studio.painter.watched.clear()
    studio.painter.released.clear()
    async with following_client(studio) as client, studio.mesh.http(OPERATOR) as http:
        run_id = await studio.mesh.submit(http, "write", roles=["painter"])
        async with aclosing(client.watch(run_id)) as first, aclosing(client.watch(run_id)) as second:
            pieces = ""
            while "three" not in pieces:
                event = await anext(first)
                pieces += event.proto.text_delta.text
                studio.painter.watched.set()
            events = [await anext(second)]
            studio.painter.released.set()
            events += [event async for event in second]
        assert pieces == "one two three"
        assert [event.seq for event in events] == list(range(1, len(events) + 1)), "durable ones alone"
        assert len(studio.watches) == 1


async def test_a_follower_behind_the_kept_events_reads_the_journal(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MAX_FRAMES", 1)
    monkeypatch.setattr(batches, "BATCH_BYTES", 1)
    async with following_client(studio) as client, AsyncExitStack() as stack:
        run_id, _ = await studio.begin(stack)
        async with aclosing(client.watch(run_id, durable_only=True)) as events:
            seen = [await anext(events)]
            studio.painter.released.set()
            await until(lambda: len(studio.watches) > 1)
            seen += [event async for event in events]
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].type == "run_state"


async def test_a_follower_waits_for_the_orchestrator_with_patience(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHECKED_EVERY", 0.02)
    async with following_client(studio) as client, AsyncExitStack() as stack:
        run_id, _ = await studio.begin(stack)
        async with (
            aclosing(client.watch(run_id, durable_only=True)) as patient,
            aclosing(client.watch(run_id, durable_only=True, patience=0.05)) as hasty,
        ):
            first = [(await anext(patient)).seq, (await anext(hasty)).seq]
            await studio.mesh.mesh.orchestrator.kill()
            with pytest.raises(Unavailable):
                await _until_type(hasty, "never")
            await studio.mesh.mesh.orchestrator.start()
            studio.painter.released.set()
            numbers = [event.seq async for event in patient]
    assert first == [1, 1]
    assert numbers == list(range(2, len(numbers) + 2))


async def test_a_follower_of_another_tenant_finds_no_run(studio: Studio) -> None:
    async with AsyncExitStack() as stack:
        run_id, ui = await studio.begin(stack)
        client = await stack.enter_async_context(following_client(studio, "blue"))
        with pytest.raises(UnknownRun):
            await anext(client.watch(run_id))
        studio.painter.released.set()
        await ui.rest()


async def test_a_stream_ends_with_the_token_of_its_follower(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHECKED_EVERY", 0.02)
    async with AsyncExitStack() as stack:
        _, ui = await studio.begin(stack)
        later = SimpleNamespace(time=lambda: time.time() + 3_600, monotonic=time.monotonic)
        monkeypatch.setattr("archon.security.authenticator.time", later)
        await ui.rest()
        monkeypatch.undo()
        studio.painter.released.set()
    assert ui.outcome == "TOKEN_EXPIRED"


async def test_a_follower_needs_the_right_to_watch(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Visitors, "may", lambda self, caller, rpc: rpc != WATCH_RUN)
    async with front_end(studio.mesh, OPERATOR) as ui:
        stream = await ui.run(input_of(user("paint")))
    assert stream.outcome == "PERMISSION_DENIED"


@pytest.mark.slow
async def test_followers_that_go_away_leave_nothing(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy, connections in CLOSE_WAIT would pile up."""
    monkeypatch.setattr(hub, "LINGER", 0.01)
    host, _, port = studio.mesh.gateway.address.rpartition(":")
    token = studio.mesh.headers(OPERATOR)["authorization"]
    async with AsyncExitStack() as stack:
        run_id, ui = await studio.begin(stack)
        rpc = {"jsonrpc": "2.0", "id": 1}
        read = {"name": "run_get", "arguments": {"run_id": run_id, "wait": 60}, "_meta": {"progressToken": 1}}
        asked = {
            "/mcp": {**rpc, "method": "tools/call", "params": read},
            "/a2a": {**rpc, "method": "SubscribeToTask", "params": {"id": run_id}},
            "/agui/painter": input_of(user("wait here")),
        }
        tasks = len(asyncio.all_tasks())
        for path, content in asked.items():
            text = json.dumps(content)
            head = (
                f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\ncontent-type: application/json\r\n"
                "accept: application/json, text/event-stream\r\na2a-version: 1.0\r\nmcp-protocol-version: 2025-11-25\r\n"
                f"content-length: {len(text)}\r\n\r\n"
            )
            for _ in range(5):
                before = len(studio.viewers)
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write((head + text).encode())
                assert b" 200 " in await reader.readline(), path
                await until(lambda: len(studio.viewers) > before)  # noqa: B023 - it is called at once
                writer.transport.abort()
        await until(lambda: len(asyncio.all_tasks()) <= tasks + 5)
        studio.painter.released.set()
        await ui.rest()
    assert ui.outcome == "success"


async def _until_type(events: AsyncIterator[RunEvent], kind: str) -> None:
    async for event in events:
        if event.type == kind:
            return
