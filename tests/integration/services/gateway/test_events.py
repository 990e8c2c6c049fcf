"""Server-sent events: runs and the registry, resumed by number, one watch for all viewers, rights checked for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from types import SimpleNamespace

import httpx2
import pytest
import pytest_asyncio

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon_services.gateway.watches import batches
from archon_services.gateway.watches import topic as topics
from archon_services.gateway.watches.runs import RunWatches
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, STRANGER, VIEWER, EventReader, GatewayMesh, watching
from tests.fixtures.waiting import until


class Gate:
    """The role `gated`, which answers once the gate is open."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def handle(self, task: TaskContext) -> str:
        await self.event.wait()
        return "done"


@pytest_asyncio.fixture
async def gate(served: GatewayMesh) -> AsyncIterator[Gate]:
    gate = Gate()
    settings = AgentSettings(registry=served.mesh.registry.address)
    async with AgentServer("gated", handler=gate.handle, settings=settings):
        yield gate
        gate.event.set()


async def test_a_run_that_has_ended_is_told_whole_and_resumed(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        async with watching(http, f"/events/runs/{run_id}") as reader:
            events = await reader.all()
        *durable, end = [event for event in events if event[1] or event[0] != "message"]
        assert [int(number) for _, number, _ in durable] == list(range(1, len(durable) + 1))
        assert "submitted" in durable[0][2]
        assert (end[0], durable[-1][2]["runState"]["state"]) == ("end", "TASK_STATE_COMPLETED")
        async with watching(http, f"/events/runs/{run_id}", {"last-event-id": "2"}) as reader:
            assert (await reader.next())[1] == "3"
        last = durable[-1][1]
        over = await http.get(f"/events/runs/{run_id}", headers={"last-event-id": last})
        assert over.status_code == 204  # has a browser stop connecting again


async def test_a_viewer_without_the_right_is_refused(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
    async with served.http() as http:
        assert (await http.get(f"/events/runs/{run_id}")).status_code == 401
    async with served.http(STRANGER) as http:
        assert (await http.get(f"/events/runs/{run_id}")).status_code == 404
    async with served.http(VIEWER) as http:
        assert (await http.get("/events/runs/no-such-run")).status_code == 404
        answer = await http.get(f"/events/runs/{run_id}", headers={"last-event-id": "x"})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


async def test_many_viewers_cost_the_orchestrator_one_watch(
    served: GatewayMesh, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, str, int]] = []
    frames = RunWatches.frames

    def counted(self: RunWatches, tenant: str, run_id: str, after: int, *, durable_only: bool = False) -> object:
        opened.append((tenant, run_id, after))
        return frames(self, tenant, run_id, after, durable_only=durable_only)

    monkeypatch.setattr(RunWatches, "frames", counted)
    async with served.http(OPERATOR) as http, AsyncExitStack() as stack:
        run_id = await served.submit(http, roles=["gated"])
        readers: list[EventReader] = []
        for _ in range(20):
            readers.append(await stack.enter_async_context(watching(http, f"/events/runs/{run_id}")))
        firsts = [await reader.next() for reader in readers]
        assert all("submitted" in data for _, _, data in firsts)
        gate.event.set()
        rests = await asyncio.gather(*(reader.all() for reader in readers))
    assert all(rest[-1][0] == "end" for rest in rests)
    assert opened == [("default", run_id, 0)]


async def test_a_viewer_goes_on_across_a_restart_of_the_orchestrator(served: GatewayMesh, gate: Gate) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["gated"])
        async with watching(http, f"/events/runs/{run_id}") as reader:
            numbers = [int((await reader.next())[1])]
            await served.mesh.orchestrator.kill()
            await served.mesh.orchestrator.start()
            gate.event.set()
            numbers += [int(number) for kind, number, _ in await reader.all() if kind == "message" and number]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_viewer_of_a_held_run_resumes_at_the_gateway_that_comes_after_a_crash(
    served: GatewayMesh, gate: Gate
) -> None:
    numbers: list[int] = []
    async with served.http(OPERATOR) as http:
        point = {"point": "BREAKPOINT_POINT_TASK", "name": "gated"}
        run_id = await served.submit(http, roles=["echo", "gated"], breakpoints=[point])
        gate.event.set()
        with suppress(httpx2.TransportError):
            async with watching(http, f"/events/runs/{run_id}") as reader:
                async with asyncio.timeout(10):
                    while (event := await reader.next())[0] == "message":
                        numbers += [int(event[1])] if event[1] else []
                        if "approvalRequested" in event[2]:
                            break
                await served.gateway.kill()
                await reader.all()
        await served.gateway.start()
    async with served.http(OPERATOR) as http:
        headers = {"last-event-id": str(numbers[-1])}
        async with watching(http, f"/events/runs/{run_id}", headers) as reader:
            body = {"runId": run_id, "inputId": f"{run_id}.2/breakpoint", "decision": "DECISION_APPROVE"}
            released = await http.post(f"{ORCHESTRATOR}/Respond", json=body)
            assert released.status_code == 200, released.text
            events = await reader.all()
    numbers += [int(number) for kind, number, _ in events if kind == "message" and number]
    assert events[-1][0] == "end" and numbers == list(range(1, numbers[-1] + 1))


async def test_a_viewer_behind_the_kept_events_reads_the_journal(
    served: GatewayMesh, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MAX_FRAMES", 2)
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["gated", "echo"])
        async with watching(http, f"/events/runs/{run_id}") as first:
            await first.next()
            gate.event.set()
            await first.all()
            async with watching(http, f"/events/runs/{run_id}") as late:
                events = await late.all()
    numbers = [int(number) for kind, number, _ in events if kind == "message" and number]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers[-1] > 4


async def test_a_stream_ends_with_the_token_of_its_viewer(
    served: GatewayMesh, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHECKED_EVERY", 0.05)
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["gated"])
        async with watching(http, f"/events/runs/{run_id}") as reader:
            await reader.next()
            later = SimpleNamespace(time=lambda: time.time() + 3_600, monotonic=time.monotonic)
            monkeypatch.setattr("archon.security.authenticator.time", later)
            kind, _, data = (await reader.all())[-1]
            monkeypatch.undo()
    assert (kind, data["code"]) == ("failure", "unauthenticated")


async def test_a_quiet_stream_has_heartbeats(served: GatewayMesh, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHECKED_EVERY", 0.005)
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["gated"])
        async with watching(http, f"/events/runs/{run_id}") as reader:
            reading = asyncio.ensure_future(reader.all())
            await until(lambda: reader.comments > 1)
            gate.event.set()
            kinds = [kind for kind, _, _ in await reading]
    assert "failure" not in kinds, "a heartbeat is no event"


async def test_the_registry_is_a_snapshot_and_its_changes(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http, watching(http, "/events/registry") as first:
        _, revision, snapshot = await first.next()
        assert snapshot["snapshot"] is True
        assert "echo" in [each["role"] for each in snapshot["instances"]]
        settings = AgentSettings(registry=served.mesh.registry.address)
        async with AgentServer("newcomer", handler=Gate().handle, settings=settings):
            seen = await _role(first, "newcomer")
            async with watching(http, "/events/registry") as second:
                _, _, later = await second.next()
                assert later["snapshot"] is True
                assert {"echo", "newcomer"} <= {each["role"] for each in later["instances"]}
            async with watching(http, "/events/registry", {"last-event-id": revision}) as resumed:
                assert (await _role(resumed, "newcomer"))[1] == seen[1]
    async with served.http(STRANGER) as http, watching(http, "/events/registry") as other:
        assert (await other.next())[2].get("instances", []) == []


async def _role(reader: EventReader, role: str) -> tuple[str, str, object]:
    while True:
        kind, number, data = await reader.next()
        if any(each["role"] == role for each in data.get("instances", [])):
            return kind, number, data
