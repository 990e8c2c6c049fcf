"""Faults of cookie sessions and OpenID logins that others have reported, tried in a browser's place."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import pytest_asyncio
from cryptography.fernet import Fernet

from archon.security.openid import provider
from archon_services.gateway.identity.logins import issue
from archon_services.gateway.login import openid as logins
from archon_services.gateway.login import room
from archon_services.gateway.watches import batches
from archon_services.testing.in_process import InProcessMesh
from archon_services.testing.local_service import LocalService
from tests.fixtures.http_gateway import OPERATOR, open_gateway, settings_for, watching
from tests.fixtures.openid_mesh import KINDS
from tests.fixtures.openid_provider import OpenIdProvider
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually

COOKIE_BYTES = 4_096
"""Bytes of a cookie with its name and attributes, above which browsers drop it."""

PROXY_HEADER_BYTES = 32 * 1024
"""Bytes of headers that the page asks of proxies."""


class Office:
    """Two replicas of an HTTP gateway with an OpenID provider, which share the key of sessions."""

    def __init__(self, mesh: InProcessMesh, provider: OpenIdProvider, keys: TestKeys) -> None:
        self.mesh, self.provider, self.keys = mesh, provider, keys
        self.urls: list[str] = []
        self.nonce = ""

    def browser(self, replica: int = 0, **options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.urls[replica], timeout=10.0, **options)

    async def begin(self, http: httpx2.AsyncClient, next_path: str = "/", **headers: str) -> dict[str, str]:
        """Begins a login. Returns the parameters of the provider's page."""
        answer = await http.get("/login", params={"next": next_path}, headers=headers)
        assert answer.status_code == 303, answer.text
        query = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
        self.nonce = query["nonce"]
        return query

    async def come_back(self, http: httpx2.AsyncClient, query: Mapping[str, str], **more: str) -> httpx2.Response:
        """Comes back from the page of the provider."""
        return await http.get("/login/callback", params={"code": "c", "state": query["state"], **more})

    @asynccontextmanager
    async def gateway(self, **settings: Any) -> AsyncIterator[str]:
        gateway = LocalService(open_gateway, **settings_for(self.mesh, **settings))
        await gateway.start()
        try:
            yield f"http://{gateway.address}"
        finally:
            await gateway.stop()


@pytest_asyncio.fixture(scope="module")
async def opened(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    folder = Path(tmp_path_factory.mktemp("sessions"))
    keys = TestKeys(folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with OpenIdProvider() as provider, InProcessMesh(folder) as mesh:
            provider.more["authorization_endpoint"] = provider.url("/authorize")
            own = {"ISSUER": provider.issuer, "AUDIENCE": "archon", "KINDS": KINDS}
            for name, value in {**keys.environment(), **{f"ARCHON_OIDC_{n}": v for n, v in own.items()}}.items():
                monkeypatch.setenv(name, value)
            office = Office(mesh, provider, keys)
            settings = {"trusted_proxies": "127.0.0.1", "requests_per_second": 10_000.0}
            async with office.gateway(**settings) as first, office.gateway(**settings) as second:
                office.urls = [first, second]
                yield office


@pytest.fixture
def office(opened: Office) -> Office:
    opened.provider.answers["/token"] = lambda form: (200, {"id_token": opened.provider.token(nonce=opened.nonce)})
    opened.provider.claims.clear()
    return opened


async def test_a_login_may_end_at_the_other_replica(office: Office) -> None:
    async with office.browser() as http, office.browser(1) as other:
        query = await office.begin(http, "/inbox")
        other.cookies = http.cookies
        back = await office.come_back(other, {**query}, iss=office.provider.issuer)
        assert (back.status_code, back.headers["location"]) == (303, "/inbox")
        http.cookies = other.cookies
        assert (await http.get("/session")).json()["identity"] == "alice"


async def test_the_button_back_leads_a_browser_with_a_session_on(office: Office) -> None:
    """The address of the callback is in its history, and some providers send it there once more."""
    async with office.browser() as http:
        query = await office.begin(http)
        assert (await office.come_back(http, query)).status_code == 303
        for again in (query, {"state": "of another login"}):
            back = await office.come_back(http, again)
            assert (back.status_code, back.headers["location"]) == (303, "/")
            assert "set-cookie" not in back.headers, "it stays who it is"
        http.cookies.clear()
        assert (await office.come_back(http, query)).status_code == 404
    assert office.provider.count("/token") >= 1


async def test_a_login_begun_elsewhere_changes_no_session(office: Office) -> None:
    """A page that sends a browser to the callback with a code of its own changes nothing of its session."""
    async with office.browser() as http, office.browser() as attacker:
        await office.come_back(http, await office.begin(http))
        theirs = await office.begin(attacker)
        tokens = office.provider.count("/token")
        answer = await office.come_back(http, theirs)
        assert (answer.headers["location"], office.provider.count("/token")) == ("/", tokens)
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("error", ["access_denied", "login_required", "temporarily_unavailable", "<script>\r\nx"])
async def test_a_refusal_of_the_provider_is_an_error_and_no_loop(office: Office, error: str) -> None:
    async with office.browser() as http:
        query = await office.begin(http)
        answer = await http.get("/login/callback", params={"error": error, "state": query["state"]})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert error.split("\r")[0] in answer.json()["message"]
        assert "location" not in answer.headers
        assert (await office.come_back(http, await office.begin(http))).status_code == 303, "the next one works"


async def test_a_provider_whose_clock_is_ahead_is_believed(office: Office) -> None:
    now = int(time.time())
    async with office.browser() as http:
        for claims in ({"iat": now + 25, "nbf": now + 25}, {"iat": now + 3_000, "nbf": None}):
            office.provider.claims.update(claims)
            assert (await office.come_back(http, await office.begin(http))).status_code == 303, claims
        office.provider.claims.update({"nbf": now + 300})
        assert (await office.come_back(http, await office.begin(http))).status_code == 401


@pytest.mark.slow
async def test_a_login_with_a_key_of_a_moment_ago_waits_for_it(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code counts once: a browser could not try again."""
    monkeypatch.setattr(provider, "ASK_AGAIN", 0.05)
    async with office.browser() as http:
        office.provider.rotate(keep=False)
        back = await office.come_back(http, await office.begin(http))
        assert back.status_code == 303, back.text
        office.provider.answers["/keys"] = (503, b"")
        office.provider.rotate(keep=False)
        monkeypatch.setattr(room, "KEY_SECONDS", 0.2)
        back = await office.come_back(http, await office.begin(http))
        assert (back.status_code, "retry-after" in back.headers) == (503, True)
        del office.provider.answers["/keys"]


async def test_a_provider_that_is_away_is_an_error_until_it_is_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "KEPT", 0.0)
    discovery = "/.well-known/openid-configuration"
    async with office.browser() as http:
        query = await office.begin(http)
        office.provider.answers[discovery] = (503, b"")
        for answer in (await http.get("/login"), await office.come_back(http, query)):
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        office.provider.answers[discovery] = (200, b"<html>a page of a proxy</html>")
        assert (await http.get("/login")).status_code == 503
        del office.provider.answers[discovery]
        office.provider.answers["/token"] = (502, b"bad gateway")
        assert (await office.come_back(http, query)).status_code == 503
        office.provider.answers["/token"] = lambda form: (
            200,
            {"id_token": office.provider.token(nonce=query["nonce"])},
        )
        assert (await office.come_back(http, query)).status_code == 303, "the same login goes on"


async def test_a_code_counts_once_and_a_token_for_its_login(office: Office) -> None:
    async with office.browser() as http:
        first = await office.begin(http)
        await office.begin(http)
        replayed = await office.come_back(http, first)
        assert (replayed.status_code, replayed.json()["message"]) == (401, "the ID token is of another login")
        office.provider.answers["/token"] = (400, {"error": "invalid_grant"})
        assert (await office.come_back(http, await office.begin(http))).status_code == 401


async def test_abandoned_logins_do_not_fill_the_headers(office: Office) -> None:
    async with office.browser() as http:
        for number in range(12):
            query = await office.begin(http, f"/runs/{'x' * 1_900}{number}")
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in http.cookies.jar)
        assert len(cookies) < room.MAX_PENDING_BYTES + 1_000
        back = await office.come_back(http, query)
        assert (back.status_code, back.headers["location"]) == (303, f"/runs/{'x' * 1_900}11")


async def test_each_cookie_of_a_session_is_one_that_browsers_keep(office: Office) -> None:
    office.provider.claims["padding"] = os.urandom(2_500).hex()
    async with office.browser() as http:
        back = await office.come_back(http, await office.begin(http))
        kept = [cookie for cookie in back.headers.get_list("set-cookie") if "Max-Age=0" not in cookie]
        assert len(kept) > 1
        assert all(len(cookie) < COOKIE_BYTES for cookie in back.headers.get_list("set-cookie"))
        assert sum(len(cookie) for cookie in kept) < PROXY_HEADER_BYTES / 2
        assert (await http.get("/session")).json()["identity"] == "alice"
        del office.provider.claims["padding"]
        await office.come_back(http, await office.begin(http))
        assert len([cookie for cookie in http.cookies.jar if "session" in cookie.name]) == 1, "no piece is left over"
        assert (await http.get("/session")).json()["identity"] == "alice"


async def test_a_trusted_proxy_says_that_a_browser_came_by_https(office: Office) -> None:
    """A gateway that a proxy reaches by http would give cookies which the browser sends in clear text, too."""
    proxied = {"x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9"}
    async with office.browser(headers=proxied) as http:
        query = await office.begin(http)
        assert query["redirect_uri"].startswith("https://127.0.0.1:")
        pending = await http.get("/login")
        link = f"/login/once?code={issue(office.mesh.home / 'logins', office.keys.token(OPERATOR))}"
        for answer in (
            pending,
            await http.get(link),
            await http.post("/logout", headers={"sec-fetch-site": "same-origin"}),
        ):
            assert answer.headers.get_list("set-cookie")
            assert all("; Secure" in cookie for cookie in answer.headers.get_list("set-cookie"))
        lying = {
            "x-forwarded-host": "evil.example",
            "forwarded": "host=evil.example",
            "x-original-host": "evil.example",
        }
        assert "evil" not in (await office.begin(http, **lying))["redirect_uri"]


@pytest.mark.slow
async def test_a_stranger_says_nothing_of_a_scheme(office: Office) -> None:
    async with office.gateway() as url, httpx2.AsyncClient(base_url=url) as http:
        query = await office.begin(http, **{"x-forwarded-proto": "https"})
        assert query["redirect_uri"] == f"{url}/login/callback"


@pytest.mark.slow
async def test_the_key_of_sessions_is_replaced_with_an_overlap(office: Office, tmp_path: Path) -> None:
    file = tmp_path / "session.key"
    old = Fernet.generate_key()
    file.write_bytes(old)
    async with office.gateway(session_key=str(file)) as url, httpx2.AsyncClient(base_url=url) as http:
        await office.come_back(http, await office.begin(http))
        cookies = http.cookies
    for keys, status in (([Fernet.generate_key(), old], 200), ([Fernet.generate_key()], 401)):
        file.write_bytes(b"\n".join(keys))
        async with office.gateway(session_key=str(file)) as url, httpx2.AsyncClient(base_url=url) as http:
            http.cookies = cookies
            await eventually(lambda: _answered(http))
            assert (await http.get("/session")).status_code == status


async def test_the_streams_of_other_tabs_end_with_a_logout(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHECKED_EVERY", 0.02)
    async with office.browser() as http, office.browser() as program:
        back = await office.come_back(http, await office.begin(http))
        assert back.status_code == 303
        token = {"authorization": f"Bearer {office.provider.token()}"}
        async with watching(http, "/events/registry") as tab, watching(program, "/events/registry", token) as other:
            await tab.next(), await other.next()
            await http.post("/logout", headers={"sec-fetch-site": "same-origin"})
            [(kind, _, error)] = [event for event in await tab.all() if event[0] != "message"]
            assert (kind, error["code"]) == ("failure", "unauthenticated")
            assert (await program.get("/session", headers=token)).status_code == 200, "a token is no session"
        assert (await office.come_back(http, await office.begin(http))).status_code == 303
        async with watching(http, "/events/registry") as tab:
            await tab.next()


async def test_nothing_is_left_after_a_logout(office: Office) -> None:
    async with office.browser() as http, office.browser() as tab:
        await office.come_back(http, await office.begin(http))
        shown = await http.get("/session")
        assert shown.headers["cache-control"] == "no-store", "the button back asks again"
        away = await http.post("/logout", headers={"sec-fetch-site": "same-origin"})
        assert away.status_code == 204
        tab.cookies = http.cookies
        for each in (http, tab):
            assert (await each.get("/session")).status_code == 401
            assert (await each.post("/logout", headers={"sec-fetch-site": "same-origin"})).status_code == 204, "again"


@pytest.mark.parametrize(
    "target",
    [
        "/%09/evil.example",
        "/\t/evil.example",
        "/\\evil.example",
        "//evil.example",
        "/\r\n/evil.example",
        "https:/evil.example",
    ],
)
async def test_a_login_leads_nowhere_else(office: Office, target: str) -> None:
    async with office.browser() as http:
        back = await office.come_back(http, await office.begin(http, target))
        assert back.headers["location"] in ("/", "/%09/evil.example")
        assert urlsplit(back.headers["location"]).netloc == ""


async def test_cookies_come_back_with_a_redirect_of_another_site(office: Office) -> None:
    """With SameSite=Strict a browser would not send them from the page of the provider on, and log in for ever."""
    async with office.browser() as http:
        pending = await http.get("/login")
        back = await office.come_back(http, await office.begin(http))
        for answer in (pending, back):
            assert all("samesite=lax" in cookie.lower() for cookie in answer.headers.get_list("set-cookie"))
        navigation = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert (await http.get("/session", headers=navigation)).status_code == 200
        assert (await http.post("/logout", headers=navigation)).status_code == 403


async def _answered(http: httpx2.AsyncClient) -> bool:
    """Whether a gateway has the keys of the provider, and a browser a session or none."""
    return (await http.get("/session")).status_code != 503
