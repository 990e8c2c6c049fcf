"""Read-only links to a run: they show that run alone, end, and are revoked."""

from __future__ import annotations

import asyncio
import time

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.security.tokens import claims_of
from archon_services.gateway.identity.share_link import link_principal
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, GatewayMesh, watching


def _link(served: GatewayMesh, run_id: str, *, tenant: str = "default", seconds: float = 600.0) -> str:
    assert served.keys is not None
    return served.keys.token(link_principal(run_id, "olga", tenant, time.time()), "shares", seconds=seconds)


async def _status(served: GatewayMesh, link: str) -> int:
    async with served.http() as http:
        return (await http.get(f"/shared/{link}")).status_code


async def test_a_link_shows_its_run_without_credentials(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
    link = _link(served, run_id)
    async with served.http() as http:
        run = (await http.get(f"/shared/{link}")).json()["run"]
        basic = (await http.get(f"/shared/{link}?view=basic")).json()["run"]
        async with watching(http, f"/shared/{link}/events") as reader:
            events = await reader.all()
    assert (run["runId"], run["answers"][0]["parts"][0]["text"]) == (run_id, "echo: hello")
    assert (events[0][1], events[-1][0]) == ("1", "end")
    assert run.pop("tasks")
    assert basic == run


async def test_a_link_is_no_token_and_a_token_is_no_link(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
    link = _link(served, run_id)
    async with served.http(headers={"authorization": f"Bearer {link}"}) as http:
        assert (await http.post(f"{ORCHESTRATOR}/CancelRun", json={"runId": run_id})).status_code == 401
        assert (await http.get(f"/events/runs/{run_id}")).status_code == 401
    token = served.headers(OPERATOR)["authorization"].removeprefix("Bearer ")
    for wrong in (token, "x", link[:-4] + "AAAA", _link(served, run_id, seconds=-5), _link(served, "no-run")):
        assert await _status(served, wrong) == 404
    assert await _status(served, _link(served, run_id, tenant="blue")) == 404


async def _wait(task: TaskContext) -> str:
    await asyncio.Event().wait()
    return ""


async def test_a_revoked_link_ends_its_streams(served: GatewayMesh) -> None:
    assert served.keys is not None
    settings = AgentSettings(registry=served.mesh.registry.address)
    async with AgentServer("waiting", handler=_wait, settings=settings), served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["waiting"])
        link = _link(served, run_id)
        async with watching(http, f"/shared/{link}/events") as reader:
            await reader.next()
            served.keys.write(str(claims_of(link)["jti"]))
            kind, _, data = (await reader.all())[-1]
        assert (kind, data["details"][0]["debug"]["reason"]) == ("failure", "LINK_REFUSED")
        assert await _status(served, link) == 404
        await http.post(f"{ORCHESTRATOR}/CancelRun", json={"runId": run_id})
    served.keys.write()


async def test_a_browser_gets_the_page_of_a_link_without_its_run(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
    async with served.http(headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}) as http:
        page = await http.get(f"/shared/{_link(served, run_id)}")
        unknown = await http.get("/shared/no-link")
    assert page.status_code == unknown.status_code, "the document is the same for all: its script reads the link"
    assert page.headers["content-type"].startswith(("text/html", "text/plain; charset=utf-8"))
    assert run_id not in page.text
