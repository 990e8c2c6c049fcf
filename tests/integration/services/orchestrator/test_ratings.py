"""Ratings of runs, and the records of the instances that they are added to."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.errors import FailedPrecondition, InvalidArgument, RunExpired, Unavailable, UnknownRun
from archon.types import InstanceMetrics
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually


def unique(role: str) -> str:
    return f"{role}-{uuid.uuid4().hex[:6]}"


async def of_role(mesh: Mesh, role: str) -> list[InstanceMetrics]:
    return await mesh.client.instance_metrics(role)


async def test_a_rating_is_part_of_the_run_and_of_its_instances_records(mesh: Mesh) -> None:
    role = unique("rated")
    agent = await mesh.agent(role)
    run_id = (await mesh.client.submit("x", roles=[role], wait=10)).run_id
    assert (await mesh.client.get(run_id)).ratings == ()
    await mesh.client.rate(run_id, 1)
    await mesh.client.rate(run_id, 4, "useful")
    (rating,) = (await mesh.client.get(run_id)).ratings
    assert (rating.identity, rating.stars, rating.comment) == ("anonymous", 4, "useful")
    assert rating.rate_time > 0
    of_all, of_one = await of_role(mesh, role)
    assert (of_all.instance_id, of_one.instance_id) == ("", agent.instance_id)
    for record in (of_all, of_one):
        assert record.tasks == pytest.approx(1, rel=0.01) and record.success_rate == 1.0
        assert record.ratings == pytest.approx(1, rel=0.01), "the newer rating replaces the earlier one"
        assert record.mean_stars == pytest.approx(4, rel=0.01)


async def test_only_a_run_that_has_ended_is_rated(mesh: Mesh) -> None:
    role, gate = unique("busy"), asyncio.Event()
    await mesh.agent(role, gate=gate)
    handle = await mesh.client.submit("x", roles=[role])
    with pytest.raises(FailedPrecondition, match="has not ended"):
        await mesh.client.rate(handle.run_id, 3)
    gate.set()
    await handle.result(10)
    await mesh.client.rate(handle.run_id, 3)
    with pytest.raises(UnknownRun):
        await mesh.client.rate("unknown", 3)
    for stars, comment in ((0, ""), (6, ""), (3, "x" * 4_097)):
        with pytest.raises(InvalidArgument) as refused:
            await mesh.client.rate(handle.run_id, stars, comment)
        assert [violation.field for violation in refused.value.field_violations] == ["comment" if comment else "stars"]
    (rating,) = (await mesh.client.get(handle.run_id)).ratings
    assert rating.stars == 3


async def test_failures_count_in_the_record_of_their_instance(mesh: Mesh) -> None:
    role = unique("moody")

    async def work(task: TaskContext) -> str:
        if task.attempt == 1:
            raise Unavailable("not now")
        return "done"

    settings = AgentSettings(registry=mesh.registry.address)
    await mesh.join(AgentServer(role, handler=work, settings=settings))
    await mesh.client.submit("x", roles=[role], wait=20)
    for record in await of_role(mesh, role):
        assert record.tasks == pytest.approx(2, rel=0.01)
        assert record.success_rate == pytest.approx(0.5, rel=0.01)


async def test_records_and_ratings_survive_a_kill(own_mesh: Mesh) -> None:
    await own_mesh.agent("worker")
    run_id = (await own_mesh.client.submit("x", roles=["worker"], wait=10)).run_id
    await own_mesh.client.rate(run_id, 5)
    await own_mesh.advance(6)  # the records are stored every 5 s
    await own_mesh.orchestrator.kill()
    await own_mesh.orchestrator.start()

    async def restored() -> bool:
        return len(await of_role(own_mesh, "worker")) == 2

    await eventually(restored)
    record = (await of_role(own_mesh, "worker"))[1]
    assert record.tasks == pytest.approx(1, rel=0.01) and record.mean_stars == pytest.approx(5)
    assert [rating.stars for rating in (await own_mesh.client.get(run_id)).ratings] == [5]


async def test_a_run_whose_events_are_deleted_is_rated_all_the_same(own_mesh: Mesh) -> None:
    await own_mesh.agent("worker")
    run_id = (await own_mesh.client.submit("x", roles=["worker"], wait=10)).run_id
    await own_mesh.client.rate(run_id, 5)
    await own_mesh.orchestrator.stop()
    own_mesh.orchestrator.settings["compact_after"] = 0.1  # type: ignore[attr-defined]
    await own_mesh.orchestrator.start()

    async def compacted() -> bool:
        try:
            await anext(own_mesh.client.watch(run_id))
        except RunExpired:
            return True
        return False

    await eventually(compacted)
    assert [rating.stars for rating in (await own_mesh.client.get(run_id)).ratings] == [5]
    await own_mesh.client.rate(run_id, 2)
    assert [rating.stars for rating in (await own_mesh.client.get(run_id)).ratings] == [2]
    record = (await of_role(own_mesh, "worker"))[1]
    assert record.instance_id and record.mean_stars == pytest.approx(2, rel=0.01)


async def test_an_orchestrator_that_stops_stores_the_last_records(own_mesh: Mesh) -> None:
    await own_mesh.agent("worker")
    await own_mesh.client.submit("x", roles=["worker"], wait=10)
    await own_mesh.orchestrator.stop()
    await own_mesh.orchestrator.start()
    of_all, of_one = await of_role(own_mesh, "worker")
    assert of_all.tasks == pytest.approx(1, rel=0.01) and of_one.mean_seconds > 0


async def test_the_list_of_records_is_read_in_pages(mesh: Mesh) -> None:
    from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
    from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
    from archon.channel import connect

    role = unique("paged")
    await mesh.agent(role)
    await mesh.client.submit("x", roles=[role], wait=10)
    channel = connect(mesh.orchestrator.address)
    stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
    first = await stub.ListInstanceMetrics(pb.ListInstanceMetricsRequest(role=role, page_size=1))
    token = first.next_page_token
    rest = await stub.ListInstanceMetrics(pb.ListInstanceMetricsRequest(role=role, page_size=1, page_token=token))
    assert [len(first.metrics), len(rest.metrics), bool(token), rest.next_page_token] == [1, 1, True, ""]
    for bad in (pb.ListInstanceMetricsRequest(page_token=token), pb.ListInstanceMetricsRequest(page_size=1001)):
        with pytest.raises(InvalidArgument):
            await stub.ListInstanceMetrics(bad)
    await channel.close()
