"""Read-only links to a run: they show that run alone, end, and are revoked."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx2
import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.memory.working import WorkingMemoryClient
from archon.principal import Kind, Principal
from archon.security.tokens import claims_of
from archon_services.gateway.identity.share_link import link_principal
from archon_services.gateway.own_values import TENANT
from archon_services.gateway.shares import made
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, STRANGER, VIEWER, GatewayMesh, watching


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


PATH = "/share-links"


async def _made(http: httpx2.AsyncClient, run_id: str, **fields: Any) -> str:
    response = await http.post(PATH, json={"runId": run_id, **fields})
    assert response.status_code == 201, response.text
    return str(response.json()["path"])


async def test_a_made_link_shows_its_run_and_no_other(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        path = await _made(http, run_id)
    async with served.http() as stranger:
        shown = await stranger.get(path)
        run = shown.json()["run"]
        assert shown.headers["cache-control"] == "no-store", "a revoked link is in no cache"
        async with watching(stranger, f"{path}/events") as reader:
            events = await reader.all()
        token = path.removeprefix("/shared/")
        refused = await stranger.get(f"{PATH}?run={run_id}", headers={"authorization": f"Bearer {token}"})
    assert (run["runId"], events[-1][0], refused.status_code) == (run_id, "end", 401)


async def test_links_of_a_run_are_listed_and_revoked_one_by_one(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        kept, gone = await _made(http, run_id, seconds=600), await _made(http, run_id)
        listed = (await http.get(f"{PATH}?run={run_id}")).json()["links"]
        assert [(link["by"], round(link["expires"] - link["created"])) for link in listed] == [
            ("olga", 7 * 86_400),
            ("olga", 600),
        ]
        assert (await http.delete(gone)).json() == {}
        assert (await http.delete(gone)).status_code == 404
        [left] = (await http.get(f"{PATH}?run={run_id}")).json()["links"]
        assert left["expires"] - left["created"] == 600
        assert (await http.get(left["path"])).status_code == 200, "a listed link opens the run"
    async with served.http() as stranger:
        assert [(await stranger.get(path)).status_code for path in (kept, gone)] == [200, 404]


@pytest.mark.slow
async def test_a_link_revoked_at_another_replica_ends_its_streams(
    served: GatewayMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "CHECK_INTERVAL", 0.05)
    settings = AgentSettings(registry=served.mesh.registry.address)
    async with AgentServer("held", handler=_wait, settings=settings), served.http(OPERATOR) as http:
        run_id = await served.submit(http, roles=["held"])
        path = await _made(http, run_id)
        async with served.http() as stranger, watching(stranger, f"{path}/events") as reader:
            await reader.next()
            token = served.headers(Principal(Kind.SERVICE, "gateway", tenant=TENANT))["authorization"]
            scope = f"shares/default/{run_id}"
            async with WorkingMemoryClient(served.mesh.memory.address, scope, credentials=_Token(token)) as values:
                [record] = await values.list_values()
                await values.delete(record.key)
            kind, _, data = (await reader.all())[-1]
        assert (kind, data["details"][0]["debug"]["reason"]) == ("failure", "LINK_REFUSED")
        await http.post(f"{ORCHESTRATOR}/CancelRun", json={"runId": run_id})


class _Token:
    def __init__(self, authorization: str) -> None:
        self._authorization = authorization

    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", self._authorization),)


async def test_agents_of_a_tenant_do_not_reach_the_records(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        await _made(http, run_id)
    token = served.headers(Principal(Kind.AGENT, "echo", roles=frozenset({"echo"})))["authorization"]
    scope = f"shares/default/{run_id}"
    async with WorkingMemoryClient(served.mesh.memory.address, scope, credentials=_Token(token)) as values:
        assert await values.list_values() == []


async def test_other_kinds_and_tenants_share_nothing(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        path = await _made(http, run_id)
    for caller, status in ((VIEWER, 403), (STRANGER, 404), (None, 401)):
        async with served.http(caller) as http:
            answers = (
                await http.post(PATH, json={"runId": run_id}),
                await http.get(f"{PATH}?run={run_id}"),
                await http.delete(path),
            )
        assert [answer.status_code for answer in answers] == [status] * 3, caller
    async with served.http() as http:
        assert (await http.get(path)).status_code == 200


@pytest.mark.parametrize(
    "body", ["", "[]", '{"runId": ""}', '{"runId": "x", "seconds": 5}', '{"runId": "x", "seconds": 9e9}', '{"run": 1}']
)
async def test_an_invalid_request_makes_no_link(served: GatewayMesh, body: str) -> None:
    async with served.http(OPERATOR) as http:
        response = await http.post(PATH, content=body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_argument")


async def test_a_run_has_a_bounded_number_of_links(served: GatewayMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "MAX_LINKS", 2)
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        for _ in range(2):
            await _made(http, run_id)
        assert (await http.post(PATH, json={"runId": run_id})).status_code == 429


async def test_a_page_of_another_site_shares_nothing(served: GatewayMesh) -> None:
    async with served.http(headers={"origin": "https://evil.example", "cookie": "archon_session=x"}) as http:
        response = await http.post(PATH, json={"runId": "x"})
    assert response.status_code == 403
