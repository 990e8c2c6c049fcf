"""Reports about a run: documents for browsers without scripts or markup of agents, JSON for programs, for callers who
may read the run."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.principal import Kind, Principal
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.node.handler import agent_handler
from tests.fixtures.http_gateway import OPERATOR, STRANGER, VIEWER, GatewayMesh, watching

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
REPORTS = ("sources", "sources.svg", "time", "time.svg")
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m"


async def _evil(task: TaskContext) -> str:
    return f"{EVIL} of {task.text}"


@pytest.fixture(scope="module")
async def run_id(served: GatewayMesh) -> Any:
    """A run of two roles whose texts are markup."""
    settings = AgentSettings(registry=served.mesh.registry.address)
    async with (
        AgentServer("drafts", handler=_evil, settings=settings),
        AgentServer("edits", handler=_evil, settings=settings, depends_on=["drafts"]),
        served.http(OPERATOR) as http,
    ):
        yield await served.submit(http, EVIL, roles=["drafts", "edits"], wait="10s")


def _path(run_id: str, name: str) -> str:
    return f"/reports/runs/{run_id}/{name}"


async def test_programs_get_the_values_of_the_command_line(served: GatewayMesh, run_id: str) -> None:
    async with served.http(VIEWER) as http:
        sources = (await http.get(_path(run_id, "sources"))).json()
        first = (await http.get(f"{_path(run_id, 'sources')}?task=drafts")).json()
        used = (await http.get(_path(run_id, "time"))).json()
    labels = [source["label"] for source in sources["sources"]]
    assert labels[0].startswith("edits") and any(label.startswith("drafts") for label in labels)
    assert [source["kind"] for source in first["sources"]] == ["answer", "goal"]
    assert [task["role"] for task in sources["dispatches"]] == ["drafts", "edits"]
    assert len(used["critical_tasks"]) == 2 and used["critical_path"]


async def test_a_document_has_no_script_and_no_markup_of_agents(served: GatewayMesh, run_id: str) -> None:
    async with served.http(VIEWER, headers=BROWSER) as http:
        for name in REPORTS:
            response = await http.get(_path(run_id, name))
            assert response.status_code == 200, response.text
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "script-src" not in policy
            assert "<script" not in response.text and "<img src=x" not in response.text and "\x1b" not in response.text
            assert " style=" not in response.text or name.endswith(".svg")
        document = (await http.get(_path(run_id, "sources"))).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in document


async def _fork(served: GatewayMesh, http: httpx2.AsyncClient, run_id: str, goal: str) -> str:
    body = {"runId": run_id, "goal": [{"text": goal}], "requestId": goal}
    response = await http.post("/archon.api.orchestrator.v1.OrchestratorService/ForkRun", json=body)
    assert response.status_code == 200, response.text
    forked = str(response.json()["run"]["runId"])
    async with watching(http, f"/events/runs/{forked}") as reader:
        await reader.all()
    return forked


async def test_two_runs_are_compared_side_by_side(served: GatewayMesh, run_id: str) -> None:
    async with served.http(OPERATOR) as http:
        forked = await _fork(served, http, run_id, f"{EVIL} in other words")
    async with served.http(VIEWER) as http:
        same = (await http.get(f"{_path(run_id, 'difference')}?other={run_id}")).json()
        found = (await http.get(f"{_path(forked, 'difference')}?id={run_id}")).json()
        unnamed = await http.get(_path(forked, "difference"))
        document = await http.get(f"{_path(forked, 'difference')}?other={run_id}", headers=BROWSER)
        offers = await http.get(_path(run_id, "difference"), headers=BROWSER)
    assert (same["same"], found["same"], found["runs"], unnamed.status_code) == (True, False, [run_id, forked], 400)
    assert [(change["task"], change["pieces"][-1]["kind"]) for change in found["answers"]] == [
        ("drafts", "added"),
        ("edits", "added"),
    ]
    assert "<script" not in document.text and "<img" not in document.text
    assert document.text.count("</span> in other words</ins>") >= 2
    assert '<optgroup label="The run that it was forked from">' in document.text
    assert f'<optgroup label="Its forks"><option value="{forked}">' in offers.text


async def test_a_run_of_another_tenant_is_not_compared(served: GatewayMesh, run_id: str) -> None:
    async with served.http(STRANGER, headers=BROWSER) as http:
        assert (await http.get(f"{_path(run_id, 'difference')}?other={run_id}")).status_code == 404
        assert (await http.get(_path(run_id, "difference"))).status_code == 404


async def test_only_callers_who_may_read_the_run_get_its_reports(served: GatewayMesh, run_id: str) -> None:
    for caller, status in ((None, 401), (STRANGER, 404), (Principal(Kind.AGENT, "echo"), 403)):
        async with served.http(caller) as http:
            answers = [await http.get(_path(run_id, name)) for name in REPORTS]
        assert [answer.status_code for answer in answers] == [status] * len(REPORTS), caller
        assert all(run_id not in answer.text or status == 404 for answer in answers)


async def test_a_browser_gets_errors_as_documents(served: GatewayMesh, run_id: str) -> None:
    async with served.http(VIEWER, headers=BROWSER) as http:
        unknown = await http.get(_path("0" * 32, "sources"))
        wrong = await http.get(f"{_path(run_id, 'sources')}?task=%3Cb%3Enone")
    async with served.http(headers=BROWSER) as http:
        stranger = await http.get(f"{_path(run_id, 'sources')}?task=drafts")
    assert [answer.status_code for answer in (unknown, wrong, stranger)] == [404, 400, 401]
    assert all(answer.headers["content-type"].startswith("text/html") for answer in (unknown, wrong, stranger))
    assert "<b>" not in wrong.text and "UNKNOWN_RUN" in unknown.text
    assert f"/login?next=/reports/runs/{run_id}/sources%3Ftask%3Ddrafts" in stranger.text


async def test_a_link_to_a_run_opens_no_report(served: GatewayMesh, run_id: str) -> None:
    async with served.http(OPERATOR) as http:
        path = (await http.post("/share-links", json={"runId": run_id})).json()["path"]
    async with served.http(headers={"authorization": f"Bearer {path.removeprefix('/shared/')}"}) as http:
        assert (await http.get(_path(run_id, "sources"))).status_code == 401
        assert (await http.get(f"{path}/sources")).status_code == 404


async def test_too_many_reports_are_refused_with_a_delay(
    served: GatewayMesh, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_services.gateway.reports.reading.MAX_WAITING", 0)
    async with served.http(VIEWER, headers=BROWSER) as http:
        response: httpx2.Response = await http.get(_path(run_id, "time"))
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")


async def test_the_documents_take_the_colours_of_the_page(served: GatewayMesh, run_id: str) -> None:
    async with served.http(VIEWER, headers=BROWSER) as http:
        dark = await http.get(_path(run_id, "time"), headers={"cookie": "theme=dark"})
        other = await http.get(_path(run_id, "time"), headers={"cookie": 'theme="><script>'})
        css = await http.get("/reports/style.css")
    assert '<html lang="en" data-theme="dark">' in dark.text
    assert '<html lang="en">' in other.text
    assert css.headers["content-type"].startswith("text/css") and "--ground" in css.text


async def test_without_a_model_the_document_says_how_to_set_it(served: GatewayMesh) -> None:
    agent = Agent("mute", model=ScriptedModel(["x"]))
    settings = AgentSettings(registry=served.mesh.registry.address)
    async with (
        AgentServer("mute", handler=agent_handler(agent, memory=""), settings=settings),
        served.http(OPERATOR) as http,
    ):
        run_id = await served.submit(http, roles=["mute"], wait="10s")
        document = (await http.get(f"/reports/runs/{run_id}/prompts/1", headers=BROWSER)).text
        refused = await http.post(f"/reports/runs/{run_id}/prompts/1", json={})
    assert "ARCHON_TRIAL_MODELS" in document and f"archon playground {run_id}" in document
    assert (refused.status_code, refused.json()["code"]) == (400, "failed_precondition")
