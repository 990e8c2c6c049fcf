"""One trace per run in Jaeger: of the command line, of grpcurl, with an agent in Go, and when an orchestrator dies."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from archon.client import Client
from archon.errors import Unavailable
from archon.types import TaskState
from archon_services.local_mesh.jaeger import exporting_to
from archon_services.testing.mesh import LocalMesh
from tests.fixtures.jaeger import JaegerQuery, require_jaeger
from tests.fixtures.require import require
from tests.fixtures.waiting import eventually
from tests.interop.go_agent import StartGo, registered
from tests.interop.test_go_in_a_mesh import DELAY, GOAL, PYTHON

pytestmark = pytest.mark.slow

BATCH: Final = 0.5
"""Seconds, longer than a batch of spans stays with its process."""

CALLER: Final = "b7ad6b7169203331"
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"

ROLES: Final = ("requirements", "designer", "implementer")
SERVICES: Final = {"archon-orchestrator", "archon-memory", *ROLES}

Span = dict[str, Any]


@pytest.fixture(scope="module")
def mesh() -> Iterator[LocalMesh]:
    """A mesh that exports its spans to Jaeger."""
    with LocalMesh(jaeger=str(require_jaeger())) as mesh:
        yield mesh


@pytest.fixture
def jaeger(mesh: LocalMesh) -> JaegerQuery:
    return JaegerQuery(mesh.state.traces)


async def trace_of(jaeger: JaegerQuery, trace_id: str, services: set[str]) -> list[Span]:
    """Waits until a trace has spans of these services, the parent of each span, and no further spans come; returns its
    spans."""
    seen = -1

    async def complete() -> bool:
        nonlocal seen
        await asyncio.sleep(BATCH)
        before, spans = seen, jaeger.spans(trace_id)
        seen = len(spans)
        is_whole = {span["parent"] for span in spans} <= {"", CALLER, *(span["spanID"] for span in spans)}
        return services <= {span["service"] for span in spans} and is_whole and seen == before

    await eventually(complete, 30)
    return jaeger.spans(trace_id)


def parent_of(spans: list[Span], span: Span) -> str:
    """Returns service and name of the parent; the name alone if it is the caller's span, empty for the root."""
    parents = [other for other in spans if other["spanID"] == span["parent"]]
    if not parents:
        return str(span["parent"])
    (parent,) = parents
    return f"{parent['service']}: {parent['operationName']}"


def check_trace(spans: list[Span], root: str) -> None:
    """Checks the parent of every span: `root` is that of the run."""
    assert len({span["traceID"] for span in spans}) == 1
    assert len({span["spanID"] for span in spans}) == len(spans), "each span once"
    for span in spans:
        service, name, parent = span["service"], span["operationName"], parent_of(spans, span)
        if name.startswith("invoke_workflow"):
            assert parent == root
        elif name.startswith("invoke_agent") and service == "archon-orchestrator":
            delegated = parent.startswith("coordinator: execute_tool ")
            assert delegated or parent.startswith("archon-orchestrator: invoke_workflow")
        elif name.startswith("invoke_agent"):
            assert parent == f"archon-orchestrator: {name}"
        elif name.startswith(("chat", "execute_tool")):
            assert parent == f"{service}: invoke_agent {service}"
        elif service == "archon-memory":
            assert parent.endswith(name) or parent.startswith("archon-orchestrator: invoke_agent")
        elif "Service/" in name:
            assert parent.startswith((f"{service}: ", "archon-cli: ", CALLER))
        else:
            assert (service, name, parent) == ("archon-cli", "archon run", "")


@contextmanager
def paused(mesh: LocalMesh) -> Iterator[None]:
    """The Python designer is paused within the block."""
    mesh.pause(PYTHON)
    try:
        yield
    finally:
        mesh.resume(PYTHON)


async def command_line(mesh: LocalMesh, *words: str) -> None:
    code = "from archon_services.cli.main import main; main()"
    own = {"ARCHON_HOME": str(mesh.home)}
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", code, *words], env={**os.environ, **own}, stdout=subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert f"Trace: http://{mesh.state.traces}/trace/" in out.decode()


async def newest(client: Client) -> str:
    return (await client.get((await client.list_runs())[0].run_id)).trace_id


@pytest.mark.liveness
async def test_a_pipeline_of_the_command_line_is_one_trace(
    mesh: LocalMesh, client: Client, jaeger: JaegerQuery
) -> None:
    before = set(jaeger.traces_of("archon-orchestrator"))
    await command_line(mesh, "run", GOAL)
    trace_id = await newest(client)
    spans = await trace_of(jaeger, trace_id, {"archon-cli", *SERVICES})
    check_trace(spans, "archon-cli: archon run")
    assert {span["service"] for span in spans} == {"archon-cli", *SERVICES}
    assert set(jaeger.traces_of("archon-orchestrator")) - before == {trace_id}, "exactly one trace"


@pytest.mark.liveness
async def test_a_coordinators_delegations_are_in_its_trace(
    mesh: LocalMesh, client: Client, jaeger: JaegerQuery
) -> None:
    await command_line(mesh, "run", "--strategy", "agent", GOAL)
    spans = await trace_of(jaeger, await newest(client), {"archon-cli", "coordinator", *SERVICES})
    check_trace(spans, "archon-cli: archon run")
    below = [span for span in spans if parent_of(spans, span).startswith("coordinator: execute_tool ")]
    delegated = {span["operationName"] for span in below if span["service"] == "archon-orchestrator"}
    assert delegated == {f"invoke_agent {role}" for role in ROLES}


@pytest.mark.liveness
async def test_a_run_of_grpcurl_joins_the_trace_of_its_caller(
    mesh: LocalMesh, client: Client, jaeger: JaegerQuery
) -> None:
    submit = "archon.api.orchestrator.v1.OrchestratorService/SubmitRun"
    header = f"traceparent: 00-{TRACE}-{CALLER}-01"
    body = json.dumps({"goal": [{"text": GOAL}], "wait": "20s"})
    token = f"authorization: Bearer {mesh.user_token()}"
    command = [str(require("grpcurl")), "-plaintext", "-H", header, "-H", token, "-d", body, mesh.orchestrator, submit]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"]["trace_id"] == TRACE
    spans = await trace_of(jaeger, TRACE, SERVICES)
    check_trace(spans, CALLER)
    assert [parent_of(spans, span) for span in spans if span["operationName"] == submit] == [CALLER]


@pytest.mark.liveness
async def test_an_agent_in_go_is_in_the_trace_of_its_run(
    mesh: LocalMesh, client: Client, jaeger: JaegerQuery, start_go: StartGo
) -> None:
    with paused(mesh):
        agent = await start_go(mesh.registry, ARCHON_TOKEN=mesh.token("designer"), **exporting_to(mesh.state.otlp))
        await registered(mesh, agent.address)
        run = await (await client.submit(GOAL)).result(timeout=30)
        spans = await trace_of(jaeger, run.trace_id, {"designer-go", "requirements", "implementer"})
        check_trace(spans, "")
        (designer,) = [span for span in spans if span["service"] == "designer-go"]
        assert parent_of(spans, designer) == "archon-orchestrator: invoke_agent designer"


@pytest.mark.liveness
async def test_a_killed_orchestrator_breaks_no_trace(
    mesh: LocalMesh, client: Client, jaeger: JaegerQuery, start_go: StartGo
) -> None:
    with paused(mesh):
        agent = await start_go(mesh.registry, ARCHON_TOKEN=mesh.token("designer"), **exporting_to(mesh.state.otlp))
        await registered(mesh, agent.address)
        handle = await client.submit(GOAL, metadata={DELAY: "3s"})
        await agent.until_logged("begin", within=20)
        mesh.kill("orchestrator")
        run_id = handle.run_id

        async def ended() -> bool:
            try:
                return (await client.get(run_id)).state.final
            except Unavailable:
                return False

        await eventually(ended, 60)
        run = await client.get(run_id)
        assert run.state == TaskState.COMPLETED, run.failure
        spans = await trace_of(jaeger, run.trace_id, {"archon-orchestrator", "designer-go", "implementer"})
        check_trace(spans, "")
        (workflow,) = [span for span in spans if span["operationName"].startswith("invoke_workflow")]
        assert "archon.run.taken_over" in json.dumps(workflow["logs"])
        attempts = [span for span in spans if span["operationName"] == "invoke_agent designer"]
        assert sorted(span["service"] for span in attempts) == ["archon-orchestrator", "designer-go"]
