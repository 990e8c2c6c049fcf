"""Runs of a role whose model provider fails one call in three, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from archon.client import answer_text
from archon.types import TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.openai_server import OpenAIServer
from tests.fixtures.services import ServiceProcess


async def serve(mesh: Mesh, role: str, url: str, **environment: str) -> None:
    """Starts a reference role as a process, with the model behind the URL."""
    own = {"ARCHON_MODEL": "openai/test-model", "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-very-secret"}
    registry = {"ARCHON_REGISTRY": mesh.registry.address}
    process = ServiceProcess("archon_services.agents", mesh.home, role, **own, **registry, **environment)
    await mesh.join_process(process)


@pytest.mark.parametrize("runs", [30, pytest.param(200, marks=pytest.mark.search)])
async def test_all_runs_complete_and_each_try_is_a_record(own_mesh: Mesh, runs: int) -> None:
    mesh, slots = own_mesh, asyncio.Semaphore(16)
    async with OpenAIServer(unreliable=random.Random(1)) as server:
        await serve(mesh, "requirements", server.url)

        async def run(number: int) -> list[dict[str, object]]:
            async with slots:
                done = (await mesh.client.submit(f"goal {number}", roles=["requirements"], wait=60)).run
            assert done.state == TaskState.COMPLETED, done.failure
            assert answer_text(done).endswith(f"goal {number}")
            return [json.loads(record.response_json) async for record in mesh.client.records(done.run_id)]

        records = await asyncio.gather(*(run(number) for number in range(runs)))
    assert server.failed > runs / 6
    failed = [record for of_run in records for record in of_run if "error" in record]
    assert (len(failed), sum(map(len, records))) == (server.failed, len(server.received))
    assert all("error" not in of_run[-1] for of_run in records)


async def test_the_settings_of_a_role_bound_its_tries_and_name_its_fallback(own_mesh: Mesh) -> None:
    mesh = own_mesh
    settings = {"ARCHON_MODEL_RETRIES": "1", "ARCHON_FALLBACK_MODEL": "offline"}
    await serve(mesh, "requirements", "http://127.0.0.1:9/v1", **settings)
    done = (await mesh.client.submit("It must export invoices.", roles=["requirements"], wait=60)).run
    assert "R1. It must export invoices." in answer_text(done)
    records = [record async for record in mesh.client.records(done.run_id)]
    assert [record.target for record in records] == ["test-model", "test-model", "offline"]
