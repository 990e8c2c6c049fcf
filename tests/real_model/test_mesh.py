"""A role with a real small model in a mesh: a run, and `run_task`, which is what `archon ask` calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.client import answer_text
from archon.types import TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.services import ServiceProcess
from tests.real_model.result import outcome
from tests.real_model.server import RealModel

pytestmark = pytest.mark.slow

CLERK = """
name: brief-clerk
description: Answers in one word.
model: {use: openai/smollm2, server: llamacpp}
max_tokens: 8
max_iterations: 1
"""


async def serve(mesh: Mesh, folder: Path, url: str) -> None:
    (folder / "clerk.yaml").write_text(CLERK)
    process = ServiceProcess(
        "archon_services.agents",
        mesh.home,
        str(folder / "clerk.yaml"),
        ARCHON_REGISTRY=mesh.registry.address,
        OPENAI_BASE_URL=url,
    )
    await mesh.join_process(process)


async def test_a_run_ends_with_an_answer_or_a_typed_failure(
    own_mesh: Mesh, tmp_path: Path, real_model: RealModel
) -> None:
    await serve(own_mesh, tmp_path, real_model.url)
    run = (await own_mesh.client.submit("Say yes.", roles=["brief-clerk"], timeout=200, wait=200)).run
    if run.state == TaskState.COMPLETED:
        assert answer_text(run)
    else:
        assert run.proto.failure.kind, run
    assert run.usage.input_tokens > 0, run
    await outcome(own_mesh.client.run_task("Say no.", roles=["brief-clerk"], timeout=200))
