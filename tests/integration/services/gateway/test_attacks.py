"""Attacks on the HTTP gateway by a client, a page, a neighbour host or a cache, that it stands by itself. Pages of other
sites and links are in test_browsers.py, malformed and large requests in test_front.py."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

import httpx2
import pytest

from archon_services.gateway import connections
from archon_services.gateway.identity.logins import issue
from archon_services.gateway.web.files import read_files
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, VIEWER, GatewayMesh, watching

LIST_RUNS: Final = f"{ORCHESTRATOR}/ListRuns"
JSON: Final = {"content-type": "application/json"}
PUBLIC: Final = ("/healthz", "/readyz", "/openapi.json", "/.well-known/agent-card.json")
PRIVATE: Final = ("/session", "/events/runs/x", "/shared/x", "/login", "/login/once?code=x", "/nothing")


async def _raw(served: GatewayMesh, *pieces: bytes, within: float = 10.0) -> bytes:
    """Sends bytes, and returns all that comes back until the connection ends."""
    host, _, port = served.gateway.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(within):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


@contextmanager
def _no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is logged as an error within the block, not by the event loop either."""
    with caplog.at_level(logging.ERROR):
        yield
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


PAGE = b"200" if read_files() else b"503"
"""The status of the web page: `make web` builds it."""


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://127.0.0.1/healthz", b"127.0.0.1", b"200"),
        (b"HTTPS://LocalHost/healthz", b"localhost", b"200"),
        (b"http://127.0.0.1", b"127.0.0.1", PAGE),
        (b"http://127.0.0.1/none", b"127.0.0.1", b"404"),
        (b"http://127.0.0.1/session", b"evil.example", b"400"),
        (b"http://evil.example/session", b"evil.example", b"403"),
        (b"http://evil.example/healthz", b"127.0.0.1", b"400"),
        (b"evil.example:443", b"127.0.0.1", b"400"),
        (b"*", b"127.0.0.1", b"400"),
        (b"file:///etc/passwd", b"127.0.0.1", b"400"),
        (b"//evil.example/session", b"127.0.0.1", b"404"),
    ],
)
async def test_a_target_is_a_path_or_a_url_of_the_host(
    served: GatewayMesh, target: bytes, host: bytes, status: bytes
) -> None:
    answer = await _raw(served, b"GET %b HTTP/1.1\r\nhost: %b\r\nconnection: close\r\n\r\n" % (target, host))
    assert answer.startswith(b"HTTP/1.1 " + status), answer


async def test_a_url_without_a_path_is_the_root(served: GatewayMesh) -> None:
    request = b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
    root, url = [await _raw(served, request % target) for target in (b"/", b"http://127.0.0.1")]
    assert url.partition(b"\r\n")[0] == root.partition(b"\r\n")[0]


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nhell", b"-1\r\n", b"ffffffffffffffffffff\r\n", b"1\r\nxx"])
async def test_a_broken_chunk_ends_the_connection_and_nothing_else(
    served: GatewayMesh, body: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    head = f"POST {LIST_RUNS} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
    with _no_errors(caplog):
        for refused in (b"", b"sec-fetch-site: cross-site\r\ncookie: archon_session=x\r\n"):
            try:
                answer = await _raw(served, head.encode() + refused + b"\r\n", body, b"\r\n0\r\n\r\n" * 3, within=1.0)
            except TimeoutError:
                answer = b""
            assert answer.count(b"HTTP/1.1 2") == 0


async def test_bytes_behind_a_stream_do_not_harm_it(served: GatewayMesh, caplog: pytest.LogCaptureFixture) -> None:
    token = served.headers(VIEWER)["authorization"]
    head = f"GET /events/registry HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\r\n"
    host, _, port = served.gateway.address.rpartition(":")
    with _no_errors(caplog):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode())
        await reader.readuntil(b"data:")
        writer.write(b"GARBAGE\r\n\r\n" * 100 + b"\x00" * 100_000)
        async with served.http(VIEWER) as http, watching(http, "/events/registry") as other:
            assert (await other.next())[0] == "message"
        writer.transport.abort()


async def test_a_cookie_of_a_neighbour_is_no_session(served: GatewayMesh) -> None:
    """A server on the same host, or a page of a neighbour domain, can set cookies that browsers send here."""
    assert served.keys is not None
    code = issue(served.mesh.home / "logins", served.keys.token(OPERATOR))
    async with served.http() as http:
        await http.get(f"/login/once?code={code}")
        [(name, value)] = [(cookie.name, cookie.value or "") for cookie in http.cookies.jar if cookie.value]
    made_up = ("", "x", value[:-4], value[::-1], "a" * 3_800, f'"{value}', f"{value}\\", f"{value}%00")
    for tossed in made_up:
        for cookies in (f"{name}={tossed}; {name}={value}", f"{name}={value}; {name}={tossed}", f"{name}={tossed}"):
            async with served.http(headers={"cookie": cookies}) as http:
                answer = await http.get("/session")
                own = {"identity": "olga"} if answer.status_code == 200 else {}
                assert answer.json() | own == answer.json(), "the own session, or none"
    for piece in range(1, 6):
        async with served.http(headers={"cookie": f"{name}={value}; {name}_{piece}=x"}) as http:
            assert (await http.get("/session")).status_code in (200, 401)


@pytest.mark.parametrize("value", ["a\r\nset-cookie: x=1", "a\nx: y", "a\x00b", "\u202e", "%0d%0aset-cookie:x=1"])
async def test_no_text_of_a_request_becomes_a_header(served: GatewayMesh, value: str) -> None:
    assert served.keys is not None
    code = issue(served.mesh.home / "logins", served.keys.token(OPERATOR))
    paths = (
        f"/login/once?code={code}&next=/{quote(value)}",
        f"/events/runs/{quote(value)}",
        f"/shared/{quote(value)}",
        f"/{quote(value)}",
        f"/login/callback?state={quote(value)}&error={quote(value)}",
    )
    for path in paths:
        async with served.http(VIEWER) as http:
            answer = await http.get(path, follow_redirects=False)
            assert not {"x", "set-cookie:x"} & set(answer.headers), path
            cookies = answer.headers.get_list("set-cookie")
            assert not any(each.startswith("x=") for each in cookies)
            assert "\n" not in "".join(answer.headers.values())


async def test_nothing_of_a_caller_is_left_in_a_cache(served: GatewayMesh) -> None:
    unkeyed = {"x-forwarded-host": "evil.example", "x-original-url": "/session", "x-rewrite-url": "/session"}
    unkeyed |= {"x-forwarded-scheme": "nothttps", "x-http-method-override": "POST", "forwarded": "host=evil.example"}
    for path in (*PUBLIC, *PRIVATE):
        async with served.http() as http:
            plain, poisoned = await http.get(path), await http.get(path, headers=unkeyed)
        assert (plain.status_code, plain.headers.get("location")) == (
            poisoned.status_code,
            poisoned.headers.get("location"),
        )
        assert "evil.example" not in poisoned.text
        kept = plain.headers["cache-control"]
        assert "no-store" in kept or path in PUBLIC, (path, kept)
    async with served.http(VIEWER) as http:
        for path in ("/session", "/.well-known/agent-card.json", "/session/x.css", "/openapi.json/../session"):
            assert "public" not in (await http.get(path)).headers["cache-control"], path


async def test_the_time_of_an_answer_tells_nothing_of_a_code(served: GatewayMesh) -> None:
    """A code is found by the hash of all of it: the time of a lookup does not depend on how far a guess agrees with it.
    Tokens are verified by their signature, sessions by that of their seal."""
    assert served.keys is not None
    code = issue(served.mesh.home / "logins", served.keys.token(OPERATOR))
    names = {file.name for file in (served.mesh.home / "logins").iterdir()}
    assert hashlib.sha256(code.encode()).hexdigest() in names
    async with served.http() as http:
        for guess in (
            code[:-1],
            code[:-1] + ("A" if code[-1] != "A" else "B"),
            code.swapcase(),
            hashlib.sha256(code.encode()).hexdigest(),
        ):
            assert (await http.get("/login/once", params={"code": guess})).status_code == 404
        assert (await http.get("/login/once", params={"code": code})).status_code == 303


RULES: Final[dict[str, Callable[[httpx2.Response], bool]]] = {
    "10020 anti-clickjacking": lambda r: r.headers.get("x-frame-options") == "DENY",
    "10021 content-type sniffing": lambda r: r.headers.get("x-content-type-options") == "nosniff",
    "10036 server version": lambda r: not {"server", "x-powered-by", "x-aspnet-version"} & set(r.headers),
    "10038 content security policy": lambda r: "frame-ancestors 'none'" in r.headers["content-security-policy"],
    "10055 unsafe policy": lambda r: not re.search(r"unsafe-(inline|eval)|\*", r.headers["content-security-policy"]),
    "10019 content type": lambda r: bool(r.headers.get("content-type")) or not r.content,
    "10015 cache control": lambda r: "cache-control" in r.headers,
    "10098 cross-domain": lambda r: r.headers.get("access-control-allow-origin") != "*",
    "10063 permissions policy": lambda r: "permissions-policy" in r.headers,
    "90004 spectre isolation": lambda r: r.headers.get("cross-origin-resource-policy") == "same-origin",
    "90022 application errors": lambda r: not re.search(r"Traceback|File \"|site-packages", r.text),
    "10023 debug messages": lambda r: not re.search(r" at 0x[0-9a-f]{6}", r.text),
    "2 private addresses": lambda r: not re.search(r"\b(10|192\.168)\.\d+\.\d+", r.text),
    "10010 cookie without HttpOnly": lambda r: all("HttpOnly" in each for each in r.headers.get_list("set-cookie")),
    "10054 cookie without SameSite": lambda r: all("SameSite" in each for each in r.headers.get_list("set-cookie")),
    "referrer": lambda r: r.headers.get("referrer-policy") == "no-referrer",
}
"""The passive rules of OWASP ZAP that apply to a server without pages, by number: https://www.zaproxy.org/docs/alerts."""


@pytest.mark.parametrize("path", [*PUBLIC, *PRIVATE, "/logout", LIST_RUNS, "/a2a", "//", "/%00"])
async def test_a_passive_scan_finds_nothing(served: GatewayMesh, path: str) -> None:
    assert served.keys is not None
    code = issue(served.mesh.home / "logins", served.keys.token(OPERATOR))
    async with served.http(OPERATOR) as http:
        answers: list[httpx2.Response] = [
            await http.request(method, path, content=b"{}" if method == "POST" else None, headers=JSON)
            for method in ("GET", "POST", "OPTIONS", "TRACE")
            if not (path.startswith("/events") and method == "GET")
        ]
        answers.append(await http.get(f"/login/once?code={code}"))
    for answer in answers:
        assert [rule for rule, holds in RULES.items() if not holds(answer)] == [], (answer.request.method, path)
        assert answer.request.method != "TRACE" or answer.status_code >= 400


@pytest.mark.slow
@pytest.mark.parametrize("way", ["headers", "body", "nothing", "keep-alive"])
async def test_500_slow_connections_leave_room_for_others(
    served: GatewayMesh, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 2.0)
    host, _, port = served.gateway.address.rpartition(":")
    token = served.headers(VIEWER)["authorization"]
    begun = {
        "headers": b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ",
        "body": f"POST {LIST_RUNS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n".encode(),
        "nothing": b"",
        "keep-alive": f"GET /session HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\r\n".encode(),
    }
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(500)]
    try:
        for _, writer in opened:
            writer.write(begun[way])
        async with served.http(OPERATOR) as http:
            for _ in range(20):
                async with asyncio.timeout(5):
                    assert (await http.post(LIST_RUNS, json={})).status_code == 200
        if way in ("headers", "nothing"):
            async with asyncio.timeout(20):
                assert {await reader.read() for reader, _ in opened} == {b""}, "each is cut off"
    finally:
        for _, writer in opened:
            writer.transport.abort()
    async with served.http() as http:
        assert json.loads((await http.get("/healthz")).content) == {"status": "SERVING"}
