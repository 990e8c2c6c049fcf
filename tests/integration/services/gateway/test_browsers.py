"""Browsers at the HTTP gateway: one-time links, sessions in cookies, logins at an OpenID provider, and pages of other
sites, which get nothing done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import pytest_asyncio

from archon.principal import Kind, Principal
from archon_services.gateway.identity import logins
from archon_services.gateway.identity.logins import issue
from archon_services.testing.in_process import InProcessMesh
from archon_services.testing.local_service import LocalService
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, GatewayMesh, open_gateway, settings_for
from tests.fixtures.openid_mesh import KINDS
from tests.fixtures.openid_provider import OpenIdProvider
from tests.fixtures.tokens import TestKeys

LIST_RUNS = f"{ORCHESTRATOR}/ListRuns"


@pytest.fixture
def link(served: GatewayMesh) -> str:
    """A one-time link of an operator."""
    assert served.keys is not None
    return f"/login/once?code={issue(served.mesh.home / 'logins', served.keys.token(OPERATOR))}"


@pytest_asyncio.fixture
async def browser(served: GatewayMesh, link: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that is logged in, on a page of the gateway."""
    async with served.http() as http:
        answer = await http.get(link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert "SameSite=lax" in answer.headers["set-cookie"]
        yield http


async def test_a_link_logs_a_browser_in_once(served: GatewayMesh, browser: httpx2.AsyncClient, link: str) -> None:
    session = (await browser.get("/session")).json()
    rpcs = session.pop("rpcs")
    assert f"{ORCHESTRATOR}/SubmitRun" in rpcs
    assert "/archon.api.audit.v1.AuditService/ListEntries" not in rpcs
    assert session | {"expires": 0} == {
        "identity": "olga",
        "tenant": "default",
        "kind": "operator",
        "expires": 0,
    }
    async with served.http() as other:
        again = await other.get(link)
        assert (again.status_code, again.headers.get("set-cookie")) == (404, None)
        assert (await other.get("/session")).status_code == 401


async def test_a_look_ahead_uses_no_link_up(served: GatewayMesh) -> None:
    assert served.keys is not None
    fresh = f"/login/once?code={issue(served.mesh.home / 'logins', served.keys.token(OPERATOR))}"
    async with served.http() as http:
        assert (await http.head(fresh)).status_code == 204
        assert (await http.get(fresh, headers={"sec-purpose": "prefetch"})).status_code == 204
        assert (await http.get(fresh)).status_code == 303


async def test_an_old_link_and_a_guess_are_refused(served: GatewayMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    assert served.keys is not None
    fresh = issue(served.mesh.home / "logins", served.keys.token(OPERATOR))
    monkeypatch.setattr(logins, "SECONDS", -1.0)
    async with served.http() as http:
        for code in (fresh, "guess", "../../keys", "x" * 5_000, ""):
            assert (await http.get("/login/once", params={"code": code})).status_code == 404


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("/runs?x=1", "/runs?x=1"),
        ("//evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/a\r\nset-cookie: x=1", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
async def test_a_login_leads_to_this_site_alone(served: GatewayMesh, wanted: str, given: str) -> None:
    assert served.keys is not None
    code = issue(served.mesh.home / "logins", served.keys.token(OPERATOR))
    async with served.http() as http:
        answer = await http.get("/login/once", params={"code": code, "next": wanted})
    assert answer.headers["location"] == given


async def test_a_session_calls_from_its_own_pages_alone(browser: httpx2.AsyncClient) -> None:
    async def status(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await browser.post(LIST_RUNS, json={}, headers=named)).status_code

    own = str(browser.base_url).rstrip("/")
    assert await status(sec_fetch_site="same-origin") == 200
    assert await status(origin=own) == 200
    assert await status() == 403  # no browser sends neither
    assert await status(sec_fetch_site="cross-site", origin="https://evil.example") == 403
    assert await status(sec_fetch_site="same-site", origin="http://127.0.0.1:1") == 403
    assert await status(sec_fetch_site="none") == 403
    assert await status(origin="null") == 403


async def test_a_page_elsewhere_reads_nothing_with_a_session(browser: httpx2.AsyncClient) -> None:
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "origin": "https://evil.example"}
    answer = await browser.get("/session", headers=elsewhere)
    assert (answer.status_code, answer.json()["details"][0]["debug"]["reason"]) == (403, "CROSS_SITE_REQUEST")
    assert "access-control-allow-origin" not in answer.headers
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert (await browser.get("/session", headers=followed)).status_code == 200  # a link in a mail


async def test_logout_ends_the_session(browser: httpx2.AsyncClient) -> None:
    answer = await browser.post("/logout", headers={"sec-fetch-site": "same-origin"})
    assert answer.status_code == 204
    assert (await browser.get("/session")).status_code == 401


async def test_a_changed_cookie_is_no_session(served: GatewayMesh, browser: httpx2.AsyncClient) -> None:
    [(name, value)] = [(cookie.name, cookie.value or "") for cookie in browser.cookies.jar if cookie.value]
    async with served.http(headers={"cookie": f"{name}={value[:-8]}AAAAAAA="}) as http:
        assert (await http.get("/session")).status_code == 401


async def test_a_large_token_fits_in_several_cookies(served: GatewayMesh) -> None:
    assert served.keys is not None
    roles = frozenset(f"role-{number:04}" for number in range(350))
    large = served.keys.token(Principal(Kind.OPERATOR, "groups", roles=roles))
    assert len(large) > 5_000
    code = issue(served.mesh.home / "logins", large)
    async with served.http() as http:
        answer = await http.get(f"/login/once?code={code}")
        assert all(len(cookie) <= 4_096 for cookie in answer.headers.get_list("set-cookie"))
        assert (await http.get("/session")).json()["identity"] == "groups"


async def test_a_name_that_resolves_to_this_machine_is_refused(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        for stranger in ("evil.example", "localhost.evil.example", "[::1", "127.0.0.1@evil.example", ""):
            assert (await http.get("/session", headers={"host": stranger})).status_code == 403, stranger
        assert (await http.get("/session", headers={"host": f"localhost:{http.base_url.port}"})).status_code == 200


async def test_every_answer_has_strict_headers(served: GatewayMesh) -> None:
    async with served.http() as http:
        for path in ("/healthz", "/nothing", "/session", "/login"):
            headers = (await http.get(path)).headers
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert "server" not in headers


class _OpenIdGateway:
    def __init__(self, gateway: LocalService, openid: OpenIdProvider) -> None:
        self.url, self.openid = f"http://{gateway.address}", openid
        self.nonce = ""

    async def code_page(self, http: httpx2.AsyncClient, next_path: str = "/") -> dict[str, str]:
        """Begins a login. Returns the parameters of the provider's page."""
        answer = await http.get("/login", params={"next": next_path})
        assert answer.status_code == 303
        assert answer.headers["location"].startswith(self.openid.url("/authorize?"))
        query = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
        self.nonce = query["nonce"]
        return query


@pytest_asyncio.fixture
async def openid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_OpenIdGateway]:
    """An HTTP gateway with an OpenID provider."""
    keys = TestKeys(tmp_path)
    async with OpenIdProvider() as provider, InProcessMesh(tmp_path) as mesh:
        provider.more["authorization_endpoint"] = provider.url("/authorize")
        own = {"ISSUER": provider.issuer, "AUDIENCE": "archon", "KINDS": KINDS}
        for name, value in {**keys.environment(), **{f"ARCHON_OIDC_{n}": v for n, v in own.items()}}.items():
            monkeypatch.setenv(name, value)
        gateway = LocalService(open_gateway, **settings_for(mesh))
        await gateway.start()
        served = _OpenIdGateway(gateway, provider)
        provider.answers["/token"] = lambda form: (200, {"id_token": provider.token(nonce=served.nonce)})
        try:
            yield served
        finally:
            await gateway.stop()


async def test_a_person_logs_in_at_the_provider(openid: _OpenIdGateway) -> None:
    async with httpx2.AsyncClient(base_url=openid.url) as http:
        query = await openid.code_page(http, "/runs")
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        assert query["redirect_uri"] == f"{openid.url}/login/callback"
        back = await http.get("/login/callback", params={"code": "c-1", "state": query["state"]})
        assert (back.status_code, back.headers["location"]) == (303, "/runs"), back.text
        session = (await http.get("/session")).json()
        assert (session["identity"], session["kind"]) == ("alice", "operator")
        [form] = [form for path, form in openid.openid.requests if path == "/token"]
        assert (form["code"], form["grant_type"]) == ("c-1", "authorization_code")
        assert len(form["code_verifier"]) >= 43
        again = await http.get("/login/callback", params={"code": "c-1", "state": query["state"]})
        assert (again.status_code, again.headers["location"]) == (303, "/")
        assert len([path for path, _ in openid.openid.requests if path == "/token"]) == 1, "a code counts once"


async def test_tabs_of_one_browser_log_in_at_the_same_time(openid: _OpenIdGateway) -> None:
    async with httpx2.AsyncClient(base_url=openid.url) as http:
        first = await openid.code_page(http, "/runs")
        nonce = openid.nonce
        second = await openid.code_page(http, "/inbox")
        back = await http.get("/login/callback", params={"code": "c-2", "state": second["state"]})
        assert (back.status_code, back.headers.get("location")) == (303, "/inbox"), back.text
        openid.nonce = nonce
        back = await http.get("/login/callback", params={"code": "c-1", "state": first["state"]})
        assert (back.status_code, back.headers.get("location")) == (303, "/runs"), back.text
        for _ in range(20):
            last = await openid.code_page(http)
        assert len(http.cookies) <= 12, "abandoned logins do not fill the headers"
        assert (await http.get("/login/callback", params={"code": "c", "state": last["state"]})).status_code == 303


async def test_an_answer_to_another_browser_logs_nobody_in(openid: _OpenIdGateway) -> None:
    async with httpx2.AsyncClient(base_url=openid.url) as http, httpx2.AsyncClient(base_url=openid.url) as other:
        query = await openid.code_page(http)
        stolen = await other.get("/login/callback", params={"code": "c", "state": query["state"]})
        assert stolen.status_code == 404
        await openid.code_page(other)
        mixed = await other.get("/login/callback", params={"code": "c", "state": query["state"]})
        assert mixed.status_code == 404
        wrong = {"code": "c", "state": query["state"], "iss": "https://other.example"}
        assert (await http.get("/login/callback", params=wrong)).status_code == 401
        openid.nonce = "of another login"
        replayed = await http.get("/login/callback", params={"code": "c", "state": query["state"]})
        assert (replayed.status_code, "session" in replayed.headers.get("set-cookie", "")) == (401, False)


async def test_a_refusal_of_the_provider_is_told(openid: _OpenIdGateway) -> None:
    async with httpx2.AsyncClient(base_url=openid.url) as http:
        query = await openid.code_page(http)
        denied = {"error": "access_denied<script>", "state": query["state"]}
        answer = await http.get("/login/callback", params=denied)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/json")
        openid.openid.answers["/token"] = (400, {"error": "invalid_grant"})
        answer = await http.get("/login/callback", params={"code": "c", "state": query["state"]})
        assert (answer.status_code, "invalid_grant" in answer.text) == (401, True)
