"""Hooks whose goal becomes a workflow, as `archon hook edit --workflow` does it: with the body attached, and at once with
another edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from archon.agent.settings import AgentSettings
from archon.client import Client, RunHandle
from archon.errors import HookChanged
from archon.types import TaskState
from archon_mesh.workflows import load_workflow
from archon_mesh.workflows.role import goal_of, workflow_server
from archon_services.cli.follow_run import RunRequest
from archon_services.cli.run_workflow import workflow_request
from archon_services.cli.trigger_options import workflow_changes
from tests.fixtures.http_gateway import GatewayMesh
from tests.integration.services.gateway.hooks.sending import ADD, RUN, Send, sign

TRIP = "name: trip\nparameters: {city: {}}\nsteps: [{task: 'Go to {{ city }}', role: echo}]\n"


@pytest.mark.parametrize("attach_body", [False, True])
async def test_a_hook_that_becomes_a_workflow_runs_it_for_later_deliveries(
    hooks: Client, post: Send, served: GatewayMesh, tmp_path: Path, attach_body: bool
) -> None:
    file = tmp_path / "trip.yaml"
    file.write_text(TRIP)
    request = workflow_request(load_workflow(file), {"city": "{{ body.x }}"}, RunRequest("", ("echo", "workflow")))
    run: Any = {**RUN, "metadata": {"kept": "yes"}, "timeout": 50.0, "strategy": "agent"}
    before, secret = await hooks.hooks.create("a", ADD, run=run, attach_body=attach_body)
    delivered = sign(secret)
    first = (await post("a", delivered)).json()["run"]
    async with workflow_server(AgentSettings(registry=served.mesh.registry.address)):
        changes: Any = workflow_changes(request, before.proto.run)
        await hooks.hooks.update("a", goal=request.goal, run=changes, etag=before.etag)
        with pytest.raises(HookChanged):
            await hooks.hooks.update("a", goal=goal_of(load_workflow(file), {"city": "Rome"}), etag=before.etag)
        assert (await post("a", delivered)).json()["run"] == first, "the run of before"
        answer = await post("a", sign(secret))
        assert answer.status_code == 202, answer.text
        ended = await RunHandle(hooks, await hooks.get(answer.json()["run"])).result(30)
    assert ended.state == TaskState.COMPLETED and [task.role for task in ended.tasks].count("echo") == 1
    assert "Go to hi" in str(ended.proto.plan) and ended.proto.metadata["kept"] == "yes"
    assert (await hooks.hooks.get("a")).proto.run.timeout.seconds == 50, "what an edit does not name stays"
