"""Quotas of tenants and identities over real servers: each refuses with its name, and lets in again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from archon import context
from archon.agent import AgentServer, TaskContext
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.client import Client, RunHandle
from archon.errors import QuotaExceeded, RequestIdReused
from archon.principal import Kind, Principal
from archon.types import QuotaUse, Usage
from archon_services.cli.commands.quotas import quotas
from archon_services.common import machine
from archon_services.common.quotas import DAY
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.mesh import Mesh
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually

QUOTAS: Final = """
tenants:
  default: {weight: 2, runs_per_day: 8, instances: 100}
identities:
  one-run: {runs: 1}
  one-stream: {streams: 1}
  two-a-day: {runs_per_day: 2}
  tokens: {tokens_per_day: 100}
  dollars: {usd_per_day: 0.5}
  bytes: {bytes_per_day: 1}
"""
SPENT: Final = Usage(input_tokens=90, output_tokens=10, cost_micro_usd=500_000)


class Quoted:
    """A mesh with quotas, whose calls need tokens, and an agent that spends. This process calls as a service, on behalf
    of any identity."""

    def __init__(self, folder: Path, keys: TestKeys) -> None:
        file = folder / "quotas.yaml"
        file.write_text(QUOTAS)
        self.keys = keys
        self.mesh = InProcessMesh(folder, quotas=str(file))
        self.gate = asyncio.Event()
        self.gate.set()

    @property
    def client(self) -> Client:
        return self.mesh.client

    async def work(self, task: TaskContext) -> str:
        await self.gate.wait()
        task.record_model_call("model", {}, {}, started=1.0, seconds=0.1, usage=SPENT)
        return "done"

    async def submit(self, identity: str, **options: Any) -> RunHandle:
        with acting_for(identity):
            return await self.client.submit("x", roles=["worker"], **options)

    async def refused(self, identity: str, **options: Any) -> QuotaExceeded:
        with pytest.raises(QuotaExceeded) as caught:
            await self.submit(identity, **options)
        return caught.value

    async def uses(self, kind: Kind, name: str = "ann") -> list[QuotaUse]:
        credentials = self.keys.credentials(Principal(kind, name))
        async with Client(self.mesh.orchestrator.address, credentials=credentials) as client:
            return await client.quotas()


@contextmanager
def acting_for(identity: str) -> Iterator[None]:
    with context.serving(context.CallContext(identity=identity)):
        yield


@pytest.fixture
async def quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Quoted]:
    keys = TestKeys(tmp_path)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    quoted = Quoted(tmp_path, keys)
    async with (
        quoted.mesh,
        AgentServer("worker", handler=quoted.work, max_tasks=20, settings=quoted.mesh.agent_settings()),
    ):
        yield quoted
        quoted.gate.set()


def count(use: QuotaUse, quota: str) -> tuple[float, float | None]:
    (found,) = [each for each in use.counts if each.quota == quota]
    return found.used, found.limit


async def test_runs_under_way_are_refused_by_each_way_to_begin_one(quoted: Quoted) -> None:
    quoted.gate.clear()
    ended = await quoted.submit("bob")
    run = await quoted.submit("one-run", request_id="first")
    error = await quoted.refused("one-run")
    assert error.metadata == {
        "quota": "runs",
        "limit": "1",
        "used": "1",
        "tenant": "default",
        "identity": "one-run",
    }
    assert error.retry_delay == 1.0
    stub = quoted.client._stub
    with acting_for("one-run"):
        with pytest.raises(QuotaExceeded):
            await stub.ForkRun(pb.ForkRunRequest(run_id=ended.run_id))
        async with quoted.client.converse() as conversation:
            with pytest.raises(QuotaExceeded):
                await conversation.submit("x", roles=["worker"])
        with pytest.raises(RequestIdReused):
            await quoted.client.submit("another", roles=["worker"], request_id="first")
    assert (await quoted.submit("one-run", request_id="first")).run_id == run.run_id, "it was accepted before"
    assert len(await quoted.client.list_runs()) == 2, "nothing of a refused run is stored"
    await quoted.client.pause(run.run_id)
    waiting = [run]

    async def submitted() -> bool:
        try:
            waiting.append(await quoted.submit("one-run"))
        except QuotaExceeded:
            return False
        return True

    await eventually(submitted)
    await quoted.client.resume(run.run_id)
    quoted.gate.set()
    for each in (*waiting, ended):
        await each.result(10)
    await (await quoted.submit("one-run")).result(10)


async def test_runs_of_a_day_survive_a_restart_and_end_with_it(quoted: Quoted, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        await quoted.submit("two-a-day", request_id=f"number-{number}", wait=10)
    error = await quoted.refused("two-a-day")
    assert (error.metadata["quota"], error.metadata["used"]) == ("runs_per_day", "2")
    assert error.retry_delay is not None and 1.0 <= error.retry_delay <= DAY
    await quoted.mesh.orchestrator.stop()
    await quoted.mesh.orchestrator.start()
    assert (await quoted.refused("two-a-day")).metadata["used"] == "2"
    await quoted.submit("two-a-day", request_id="number-1")
    wall = machine.wall_time
    monkeypatch.setattr(machine, "wall_time", lambda: wall() + DAY)
    await quoted.submit("two-a-day", wait=10)
    monkeypatch.setattr(machine, "wall_time", wall)
    assert (await quoted.refused("two-a-day")).metadata["used"] == "2", "a clock that is set back gives no second quota"


async def test_runs_that_a_new_process_takes_over_count(quoted: Quoted) -> None:
    quoted.gate.clear()
    run = await quoted.submit("one-run")
    await quoted.mesh.orchestrator.kill()
    await quoted.mesh.orchestrator.start()
    assert (await quoted.refused("one-run")).metadata["used"] == "1"
    quoted.gate.set()
    await run.result(20)
    await quoted.submit("one-run", wait=10)


async def test_amounts_of_a_day_refuse_the_run_after_them(quoted: Quoted) -> None:
    for identity, quota, used in (("tokens", "tokens_per_day", "100"), ("dollars", "usd_per_day", "0.5")):
        await (await quoted.submit(identity)).result(10)
        metadata = (await quoted.refused(identity)).metadata
        assert (metadata["quota"], metadata["used"], metadata["identity"]) == (quota, used, identity)
    await (await quoted.submit("bytes")).result(10)
    assert (await quoted.refused("bytes")).metadata["quota"] == "bytes_per_day"
    for _ in range(5):
        await quoted.submit("bob", wait=10)
    error = await quoted.refused("bob")
    assert (error.metadata["quota"], error.metadata["limit"]) == ("runs_per_day", "8")
    assert "identity" not in error.metadata, "it is the quota of the tenant"


async def test_streams_are_refused_until_one_ends(quoted: Quoted) -> None:
    quoted.gate.clear()
    run = await quoted.submit("one-stream")
    with acting_for("one-stream"):
        async with aclosing(run.events()) as events:
            await anext(events)
            with pytest.raises(QuotaExceeded) as caught:
                async with aclosing(run.events()) as second:
                    await anext(second)
            assert (caught.value.metadata["quota"], caught.value.retry_delay) == ("streams", 1.0)
            async with quoted.client.converse() as conversation:
                with pytest.raises(QuotaExceeded):
                    await conversation.watch(run.run_id)

        async def opened() -> bool:
            try:
                async with aclosing(run.events()) as again:
                    await anext(again)
            except QuotaExceeded:
                return False
            return True

        await eventually(opened)
    quoted.gate.set()
    await run.result(10)


async def test_callers_see_their_tenant_and_what_they_may(quoted: Quoted) -> None:
    assert [(use.tenant, use.identity) for use in await quoted.uses(Kind.VIEWER)] == [
        ("default", ""),
        ("default", "ann"),
    ]
    await (await quoted.submit("tokens")).result(10)
    await (await quoted.submit("bob")).result(10)
    everything = await quoted.uses(Kind.AUDITOR, "eve")
    assert [use.identity for use in everything] == ["", "bob", "eve", "tokens"]
    tenant = everything[0]
    assert (tenant.weight, count(tenant, "runs_per_day"), count(tenant, "instances")) == (2.0, (2, 8), (1, 100))
    assert count(tenant, "usd_per_day") == (1.0, None)
    assert count(everything[3], "tokens_per_day") == (100, 100)
    with acting_for("bob"):
        assert [use.identity for use in await quoted.client.quotas()] == ["", "bob"], "a front end asks for a person"
    stub = quoted.client._stub
    page = await stub.GetQuotas(pb.GetQuotasRequest(page_size=2))
    rest = await stub.GetQuotas(pb.GetQuotasRequest(page_size=1000, page_token=page.next_page_token))
    assert [use.identity for use in (*page.uses, *rest.uses)] == ["", "bob", "service:of-tests", "tokens"]
    assert 0 < page.day_remaining.ToSeconds() <= DAY


async def test_the_command_prints_used_and_limit(quoted: Quoted, capsys: pytest.CaptureFixture[str]) -> None:
    await (await quoted.submit("tokens")).result(10)
    address = quoted.mesh.orchestrator.address
    await asyncio.to_thread(quotas, as_json=False, orchestrator=address)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:4] for line in lines] == [
        ["tenant", "identity", "runs", "streams"],
        ["default", "(all)", "0/-", "0/-"],
        ["default", "service:of-tests", "0/-", "0/-"],
        ["default", "tokens", "0/-", "0/-"],
    ]
    assert (lines[1][4], lines[1][5], lines[3][-2], lines[3][-1]) == ("1/100", "1/8", "100/100", "0.5/-")
    await asyncio.to_thread(quotas, as_json=True, orchestrator=address)
    document = json.loads(capsys.readouterr().out)
    assert document[0]["weight"] == 2.0
    assert document[2]["quotas"]["tokens_per_day"] == {"used": 100.0, "limit": 100.0}


async def test_a_mesh_without_quotas_says_so(own_mesh: Mesh, capsys: pytest.CaptureFixture[str]) -> None:
    assert await own_mesh.client.quotas() == []
    await asyncio.to_thread(quotas, as_json=False, orchestrator=own_mesh.orchestrator.address)
    assert capsys.readouterr().out == "This mesh has no quotas.\n"
