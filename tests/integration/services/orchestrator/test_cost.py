"""Costs of runs over a mesh: a model with a price, a budget that ends before it is exceeded, and what is printed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from archon.types import Budget, TaskState
from tests.e2e.terminal import Terminal
from tests.fixtures.mesh import Mesh
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk
from tests.fixtures.services import ServiceProcess

GOAL = "It must export invoices."


def answer(tokens_in: int, tokens_out: int) -> Answer:
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    return Answer(events=[chunk({"content": "R1."}), chunk(finish="stop"), chunk(usage=usage)])


async def serve(mesh: Mesh, url: str, tmp_path: Path) -> None:
    """Serves `requirements` with a model that costs $1 per million tokens of input and $10 of output."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {openai/test-model: {input: 1, output: 10}}")
    process = ServiceProcess(
        "archon_services.agents",
        mesh.home,
        "requirements",
        ARCHON_MODEL="openai/test-model",
        ARCHON_PRICES=str(prices),
        ARCHON_REGISTRY=mesh.registry.address,
        OPENAI_BASE_URL=url,
    )
    await mesh.join_process(process)


async def test_a_run_has_its_cost_and_prints_it(own_mesh: Mesh, tmp_path: Path) -> None:
    mesh, terminal = own_mesh, Terminal(tmp_path)
    async with OpenAIServer() as server:
        await serve(mesh, server.url, tmp_path)
        server.script(answer(1_500, 100))
        arguments = ("run", "--role", "requirements", "--orchestrator", mesh.orchestrator.address, GOAL)
        result = await asyncio.to_thread(terminal.archon, *arguments)
        assert result.code == 0, result.err
        shown = await asyncio.to_thread(terminal.archon, "show", "last", "--orchestrator", mesh.orchestrator.address)
    assert "1,500 tokens in, 100 out, $0.0025." in " ".join(result.out.split())
    header, row = [line.split() for line in result.out.splitlines() if line.startswith(("role", "requirements"))]
    assert "cost" in header and "$0.0025" in row
    assert shown.out.count("1,500 in, 100 out, $0.0025") == 2, shown.out


async def test_a_cost_budget_ends_the_run_before_the_call(own_mesh: Mesh, tmp_path: Path) -> None:
    mesh, terminal = own_mesh, Terminal(tmp_path)
    async with OpenAIServer() as server:
        await serve(mesh, server.url, tmp_path)
        arguments = ("run", "--role", "requirements", "--orchestrator", mesh.orchestrator.address, GOAL)
        result = await asyncio.to_thread(terminal.archon, *arguments, "--budget-cost", "0.01")
        assert result.code == 1
        assert "budget" in result.out
        assert not server.received
        server.script(answer(1_500, 100))
        result = await asyncio.to_thread(terminal.archon, *arguments, "--budget-cost", "0.02")
        assert result.code == 0, result.out + result.err
        assert len(server.received) == 1


@pytest.mark.parametrize(("limit", "state"), [(9_000, "FAILED"), (40_000, "COMPLETED")])
async def test_a_cost_budget_counts_what_was_paid(own_mesh: Mesh, tmp_path: Path, limit: int, state: str) -> None:
    budget = Budget(max_cost_micro_usd=limit)
    async with OpenAIServer() as server:
        await serve(own_mesh, server.url, tmp_path)
        server.script(answer(1_500, 100))
        run = (await own_mesh.client.submit(GOAL, roles=["requirements"], budget=budget, wait=60)).run
    assert run.state is TaskState[state]
    assert run.usage.cost_micro_usd == (2_500 if state == "COMPLETED" else 0)
