"""The metrics of real processes: what a scrape of each one answers while and after runs, agents and services fail."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric as Family

from archon.telemetry import metrics
from archon.telemetry.metrics import METRICS
from archon_services.testing import EtcdProcess
from tests.fixtures.bare_agent import BareAgent
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.ports import free_ports
from tests.fixtures.prometheus import family_name, known_series, scrape, value
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.test_strangers import AgentFrame, on_assign, run_role

OCCASIONAL = {
    metrics.CONTEXT_USAGE,  # agents with a compaction
    metrics.CACHE_HITS,  # models whose provider counts tokens
    metrics.TOOL_CALLS,  # agents with tools
    metrics.TOOL_DURATION,
    metrics.TOOL_BREAKERS,
    metrics.ATTEMPTS_REPEATED,  # after a failure
    metrics.FRAMES_REFUSED,
    metrics.LEASE,  # journals that are shared
    metrics.HOOK_DELIVERIES,  # meshes with hooks
    metrics.SCHEDULE_FIRES,  # meshes with schedules
    metrics.QUOTA_USE,  # meshes with quotas
}
"""Metrics that a mesh of the reference roles does not export at once; other tests hold them."""


class Scraped:
    """The ports of the processes' endpoints, by process."""

    def __init__(self) -> None:
        self._ports: dict[str, int] = {}

    def environment(self, name: str) -> dict[str, str]:
        """Returns the variables with which a process serves its metrics."""
        [self._ports[name]] = free_ports(1)
        port = str(self._ports[name])
        return {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": port}

    async def of(self, name: str) -> dict[str, Family]:
        """Returns the metrics of a process."""
        return await scrape(self._ports[name])

    async def all(self) -> dict[str, dict[str, Family]]:
        """Returns the metrics of each process."""
        return {name: await self.of(name) for name in self._ports}


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


@pytest.fixture
async def measured_mesh(etcd: EtcdProcess, tmp_path: Path, scraped: Scraped) -> AsyncIterator[ProcessMesh]:
    """A mesh whose services serve their metrics, without agents."""
    own = {name: scraped.environment(name) for name in ("registry", "memory", "orchestrator")}
    mesh = ProcessMesh(tmp_path, etcd.address, own)
    await mesh.start()
    yield mesh
    await mesh.stop()


async def test_processes_export_the_metrics_of_the_table(measured_mesh: ProcessMesh, scraped: Scraped) -> None:
    mesh = measured_mesh
    async with AsyncExitStack() as stack:
        for role in ("requirements", "designer", "implementer"):
            agent = ServiceProcess(
                "archon_services.agents",
                mesh.home,
                role,
                ARCHON_REGISTRY=mesh.registry.address,
                ARCHON_MEMORY=mesh.memory.address,
                **scraped.environment(role),
            )
            stack.push_async_callback(agent.stop)
            await agent.start()
            await mesh.seen(agent.address)
        roles = ["requirements", "designer", "implementer"]
        handle = await mesh.client.submit("A small shop", roles=roles, wait=20)
        assert handle.run is not None
        known, seen = known_series(), set()
        types = {family_name(metric): metric.kind.value for metric in METRICS}
        for name, families in (await scraped.all()).items():
            for family in families.values():
                assert types[family.name] == family.type, (name, family.name)
                seen.add(family.name)
                for sample in family.samples:
                    assert sample.labels.keys() <= known[sample.name], (name, sample)
        assert seen == {family_name(metric) for metric in METRICS if metric not in OCCASIONAL}
        assert value(await scraped.of("memory"), "archon_registry_watch_lag_seconds") == 0
        orchestrator, designer = await scraped.of("orchestrator"), await scraped.of("designer")
        assert value(orchestrator, "archon_runs_ended_total", archon_state="completed") == 1
        assert value(orchestrator, "archon_runs_ended_total", archon_state="failed") == 0
        assert value(orchestrator, "archon_run_duration_seconds_count", archon_state="completed") == 1
        assert value(orchestrator, "archon_attempts_dispatched_total", archon_role="designer") == 1
        assert value(orchestrator, "archon_role_slots", archon_role="designer", archon_state="free") == 8
        assert value(orchestrator, "archon_orchestrator_owner") == 1
        assert value(designer, "archon_agent_slots", archon_role="designer") == 8
        commits = value(orchestrator, "archon_journal_commit_duration_seconds_count")
        assert 1 <= commits <= value(orchestrator, "archon_journal_steps_total", archon_outcome="stored")


@pytest.mark.slow
async def test_a_lost_attempt_and_its_run_are_counted(measured_mesh: ProcessMesh, scraped: Scraped) -> None:
    mesh = measured_mesh
    slow = await mesh.agent_process("writer", delay=60.0, **scraped.environment("writer"))
    handle = await mesh.client.submit("x", roles=["writer"])
    dispatched = {"archon_role": "writer"}

    async def has(count: float, name: str, **labels: str) -> bool:
        try:
            return value(await scraped.of("orchestrator"), name, **labels) == count
        except KeyError:
            return False

    await eventually(lambda: has(1, "archon_attempts_dispatched_total", **dispatched))
    assert await has(1, "archon_runs", archon_state="running")
    assert await has(1, "archon_role_slots", archon_role="writer", archon_state="used")
    busy = await scraped.of("writer")
    assert value(busy, "archon_agent_tasks", archon_role="writer", archon_state="running") == 1
    assert value(busy, "archon_agent_tasks", archon_role="writer", archon_state="parked") == 0
    await slow.kill()
    await eventually(
        lambda: has(1, "archon_attempts_repeated_total", archon_role="writer", archon_reason="lost"), within=30.0
    )
    await eventually(lambda: has(1, "archon_tasks_waiting", archon_role="writer"))
    await mesh.client.pause(handle.run_id)
    await eventually(lambda: has(1, "archon_runs", archon_state="paused"))
    await mesh.client.cancel(handle.run_id)
    await eventually(lambda: has(1, "archon_runs_ended_total", archon_state="canceled"))
    assert await has(0, "archon_runs", archon_state="running")


async def test_refused_frames_are_counted_by_reason(measured_mesh: ProcessMesh, scraped: Scraped) -> None:
    unknown = AgentFrame.FromString(b"\xa2\x06\x00")  # field 100, which no version has
    broken = b"\x0a\x06\x0a\x04\x0a\x02\xff\xfe"  # a message of one frame whose task_id is not UTF-8
    async with BareAgent("odd", measured_mesh.registry.address, on_assign(unknown, broken)):
        assert await run_role(measured_mesh, "odd") == "done"
        for reason in ("UNKNOWN_FRAME", "MALFORMED_MESSAGE"):

            async def is_counted(reason: str = reason) -> bool:
                try:
                    counted = value(
                        await scraped.of("orchestrator"), "archon_frames_refused_total", archon_reason=reason
                    )
                except KeyError:
                    return False
                return counted == 1

            await eventually(is_counted)


@pytest.mark.slow
async def test_the_outbox_and_the_watch_age_while_services_are_down(
    measured_mesh: ProcessMesh, scraped: Scraped
) -> None:
    mesh = measured_mesh
    await mesh.agent_process("writer")

    async def current(name: str) -> float:
        return value(await scraped.of("orchestrator"), name)

    async def is_up_to_date() -> bool:
        return await current("archon_registry_watch_lag_seconds") == 0 == await current("archon_outbox_rows")

    async def is_behind() -> bool:
        lag, age = await current("archon_registry_watch_lag_seconds"), await current("archon_outbox_age_seconds")
        return lag > 0 and age > 0 and await current("archon_outbox_rows") == 1

    await eventually(is_up_to_date)
    await mesh.memory.stop()
    await mesh.registry.kill()
    handle = await mesh.client.submit("x", roles=["writer"], wait=20)
    assert handle.run is not None
    await eventually(is_behind)
    earlier = await current("archon_outbox_age_seconds")
    await mesh.registry.start()
    await mesh.memory.start()
    await eventually(is_up_to_date, within=30.0)
    assert earlier > 0 == await current("archon_outbox_age_seconds")


@pytest.mark.slow
async def test_a_service_stops_cleanly_beside_a_frozen_collector(process_mesh: ProcessMesh) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        memory = ServiceProcess(
            "archon_services.memory",
            process_mesh.home,
            ARCHON_REGISTRY=process_mesh.registry.address,
            ARCHON_DB=str(process_mesh.home / "other.db"),
            OTEL_METRICS_EXPORTER="otlp",
            OTEL_TRACES_EXPORTER="otlp",
            OTEL_METRIC_EXPORT_INTERVAL="100",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}",
        )
        await memory.start()
        silent.settimeout(10)
        connection, _ = await asyncio.to_thread(silent.accept)
        with connection:
            assert await memory.stop() == 0


@pytest.mark.slow
async def test_a_replica_that_shares_its_journal_exports_its_lease(
    measured_mesh: ProcessMesh, scraped: Scraped, postgres_dsn: str
) -> None:
    replica = ServiceProcess(
        "archon_services.orchestrator",
        measured_mesh.home,
        ARCHON_REGISTRY=measured_mesh.registry.address,
        ARCHON_MEMORY="",
        ARCHON_JOURNAL=postgres_dsn,
        **scraped.environment("replica"),
    )
    await replica.start()
    try:
        exported = await scraped.of("replica")
        assert 0 < value(exported, "archon_orchestrator_lease_seconds") <= 3
        assert value(exported, "archon_orchestrator_owner") == 1
        assert "archon_outbox_rows" not in exported
    finally:
        await replica.stop()
