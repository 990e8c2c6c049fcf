"""Reading pages over real HTTP: what a page becomes, what fails, and what an attacker gets."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.builtin import FetchPage
from archon_mesh.tools.builtin.web import client as web_client
from archon_mesh.tools.builtin.web.addresses import MAX_ADDRESSES, refusal_of
from archon_mesh.tools.builtin.web.fetch_page import MAX_PAGE_BYTES, MAX_TEXT
from tests.fixtures.async_generators import unclosed_generators
from tests.fixtures.variants import one_in
from tests.fixtures.web_server import Page, WebServer, certificate_for

PAGE = """<!doctype html><html><head><title>The
 sea</title><style>p {color: red}</style><script>alert("<p>no</p>")</script></head>
<body><h1>Waves &amp; wind</h1><p>The <b>first</b> line.<p>The second
line.<table><tr><td>a</td><td>b</td></tr></table><ul><li>one<li>two</ul></body></html>"""


@pytest.fixture
async def server() -> AsyncIterator[WebServer]:
    async with WebServer({"/": Page(PAGE), "/secret": Page("the secret")}) as running:
        yield running


def fetcher(server: WebServer) -> FetchPage:
    return FetchPage(allow_hosts=[server.host])


async def test_page_becomes_its_title_and_text(server: WebServer) -> None:
    page = await fetcher(server).execute(url=f"{server.url}/")
    assert page["title"] == "The sea"
    assert [line for line in page["text"].split("\n") if line] == [
        "Waves & wind",
        "The first line.",
        "The second line.",
        "a b",
        "one",
        "two",
    ]
    assert page["url"] == f"{server.url}/"
    assert page["truncated"] is False


async def test_plain_text_and_json_are_returned_as_they_are(server: WebServer) -> None:
    server.pages["/t"] = Page("a  <b>\n c", content_type="text/plain")
    server.pages["/j"] = Page('{"a": 1}', content_type="application/problem+json")
    server.pages["/l"] = Page("caf\xe9".encode("latin-1"), content_type="text/plain; charset=iso-8859-1")
    texts = [(await fetcher(server).execute(url=server.url + path))["text"] for path in ("/t", "/j", "/l")]
    assert texts == ["a  <b>\n c", '{"a": 1}', "café"]


@pytest.mark.parametrize("content_type", ["image/png", "application/pdf", "application/octet-stream", ""])
async def test_content_that_is_not_text_is_refused(server: WebServer, content_type: str) -> None:
    server.pages["/file"] = Page(b"x" * 1000, content_type=content_type, end="hang")
    with pytest.raises(FailedPrecondition, match="not text"):
        await fetcher(server).execute(url=f"{server.url}/file")


async def test_endless_page_is_cut_while_it_is_read(server: WebServer) -> None:
    server.pages["/long"] = Page(b"x" * 65_536, content_type="text/plain", repeat=10_000)
    with unclosed_generators() as left:
        page = await fetcher(server).execute(url=f"{server.url}/long")
    assert page["truncated"] is True
    assert len(page["text"]) == MAX_TEXT
    assert left == []
    await asyncio.wait_for(server.closed.wait(), 60)
    assert server.sent < 10 * MAX_PAGE_BYTES


async def test_long_html_is_cut_and_says_so(server: WebServer) -> None:
    server.pages["/long"] = Page("<title>Long</title>" + "<p>some words" * 50_000)
    page = await fetcher(server).execute(url=f"{server.url}/long")
    assert (page["title"], len(page["text"]), page["truncated"]) == ("Long", MAX_TEXT, True)


async def test_compressed_page_is_unpacked_up_to_its_limit(server: WebServer) -> None:
    packed = {"Content-Encoding": "gzip"}
    server.pages["/small"] = Page(gzip.compress(b"small"), content_type="text/plain", headers=packed)
    bomb = gzip.compress(b"x" * (64 * 1024 * 1024))
    server.pages["/bomb"] = Page(bomb, content_type="text/plain", headers=packed)
    assert (await fetcher(server).execute(url=f"{server.url}/small"))["text"] == "small"
    page = await fetcher(server).execute(url=f"{server.url}/bomb")
    assert page["truncated"] is True
    server.pages["/odd"] = Page(b"x", content_type="text/plain", headers={"Content-Encoding": "br"})
    with pytest.raises(FailedPrecondition, match="encoding"):
        await fetcher(server).execute(url=f"{server.url}/odd")


@pytest.mark.parametrize("piece", one_in(3, ["<a ", "<!--", "<div", "&#", "<!doctype ", "<script>", "<p>"]))
async def test_hostile_html_does_not_hold_the_parser(server: WebServer, piece: str) -> None:
    server.pages["/hostile"] = Page("hello<p>" + piece * (1024 * 1024 // len(piece)))
    page = await asyncio.wait_for(fetcher(server).execute(url=f"{server.url}/hostile"), 60)
    assert page["text"].startswith("hello")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (404, NotFound),
        (410, NotFound),
        (401, PermissionDenied),
        (403, PermissionDenied),
        (429, ResourceExhausted),
        (500, Unavailable),
        (503, Unavailable),
        (418, FailedPrecondition),
    ],
)
async def test_status_is_a_typed_error(server: WebServer, status: int, expected: type[ArchonError]) -> None:
    server.pages["/failing"] = Page("no", status=status, headers={"Retry-After": "7"})
    with pytest.raises(expected, match=f"status {status}") as raised:
        await fetcher(server).execute(url=f"{server.url}/failing")
    assert raised.value.retry_delay == (7 if status in (429, 500, 503) else None)


async def test_failures_that_may_pass_are_retried_by_the_engine(server: WebServer) -> None:
    async def no_pause(_: float) -> None:
        pass

    engine = ToolExecutionEngine(ToolRegistry([fetcher(server)]), sleep=no_pause)
    for path, requests in (("/busy", 3), ("/none", 1)):
        server.requests.clear()
        server.pages["/busy"] = Page("no", status=503)
        result = await engine.execute_tool_call("fetch_page", {"url": server.url + path})
        assert not result.ok
        assert len(server.requests) == requests


async def test_lost_connection_is_unavailable(server: WebServer) -> None:
    server.pages["/reset"] = Page(end="reset")
    with pytest.raises(Unavailable, match="no answer"):
        await fetcher(server).execute(url=f"{server.url}/reset")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(Unavailable):
            await FetchPage([f"127.0.0.1:{port}"]).execute(url=f"http://127.0.0.1:{port}/")


async def test_server_that_hangs_is_a_timeout(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_client, "READ_SECONDS", 0.2)
    server.pages["/hang"] = Page("begin", content_type="text/plain", end="hang")
    with pytest.raises(DeadlineExceeded):
        await fetcher(server).execute(url=f"{server.url}/hang")


async def test_unknown_host_and_failing_resolver_differ() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def failing(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    with pytest.raises(NotFound, match=r"no host 'nowhere\.example'"):
        await FetchPage(resolve=unknown).execute(url="http://nowhere.example/")
    with pytest.raises(Unavailable, match="cannot resolve"):
        await FetchPage(resolve=failing).execute(url="http://nowhere.example/")


async def test_tls_checks_the_name_of_the_host_not_the_address(tmp_path: Path) -> None:
    async def local(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    server_tls, client_tls = certificate_for("shop.example", tmp_path)
    async with WebServer({"/": Page("over TLS")}, tls=server_tls) as server:
        fetch = FetchPage(["shop.example", "other.example"], resolve=local, tls=client_tls)
        page = await fetch.execute(url=f"https://shop.example:{server.port}/")
        assert page["text"] == "over TLS"
        assert server.requests == [("/", f"shop.example:{server.port}")]
        with pytest.raises(FailedPrecondition, match=r"no secure connection to other\.example"):
            await fetch.execute(url=f"https://other.example:{server.port}/")
        untrusting = FetchPage(["shop.example"], resolve=local)
        with pytest.raises(FailedPrecondition, match="no secure connection"):
            await untrusting.execute(url=f"https://shop.example:{server.port}/")
        assert len(server.requests) == 1


async def test_redirects_are_followed_five_times(server: WebServer) -> None:
    for number in range(6):
        server.pages[f"/{number}"] = Page(status=302, headers={"Location": f"/{number + 1}"})
    server.pages["/6"] = Page("the end")
    page = await fetcher(server).execute(url=f"{server.url}/1")
    assert (page["text"], page["url"]) == ("the end", f"{server.url}/6")
    with pytest.raises(FailedPrecondition, match="more than 5 redirects"):
        await fetcher(server).execute(url=f"{server.url}/0")


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://127.0.0.1/", "ftp://a/b", "data:text/html,x"])
async def test_redirect_to_another_scheme_is_refused(server: WebServer, location: str) -> None:
    server.pages["/away"] = Page(status=302, headers={"Location": location})
    with pytest.raises(InvalidArgument, match="invalid URL"):
        await fetcher(server).execute(url=f"{server.url}/away")


async def test_redirect_to_a_private_address_gets_nothing(server: WebServer) -> None:
    async with WebServer({"/secret": Page("the secret")}) as inside:
        for status in (301, 302, 303, 307, 308):
            server.pages["/away"] = Page(status=status, headers={"Location": f"{inside.url}/secret"})
            with pytest.raises(PermissionDenied, match="not a public address: loopback"):
                await fetcher(server).execute(url=f"{server.url}/away")
        assert inside.requests == []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ],
)
async def test_loopback_in_any_spelling_gets_nothing(server: WebServer, host: str) -> None:
    with pytest.raises((PermissionDenied, NotFound, InvalidArgument)) as raised:
        await FetchPage().execute(url=f"http://{host}:{server.port}/secret")
    assert server.requests == [], "the attacker read the page"
    assert "the secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("169.254.169.254", "link-local"),
        ("fd00:ec2::254", "private"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "not global"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "private"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "not global"),
        ("::ffff:169.254.169.254", "link-local"),
        ("2002:a9fe:a9fe::", "link-local"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b::10.0.0.1", "private"),
        ("4000::1", "not global"),
        ("192.0.2.1", "private"),
        ("not an address", "not an IP address"),
    ],
)
async def test_address_that_is_not_public_is_never_dialled(
    address: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8", address]  # one public address does not vouch for the others

    def dialled(*_: object, **__: object) -> None:
        raise AssertionError("an HTTP client was made")

    monkeypatch.setattr(httpx2, "AsyncClient", dialled)
    with pytest.raises(PermissionDenied, match=why):
        await FetchPage(resolve=resolve).execute(url="http://innocent.example/latest/meta-data/")


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal_of(address) is None


async def test_name_that_is_rebound_after_the_check_gets_nothing() -> None:
    """The resolver of an attacker answers first with an innocent address, then with that of a private service."""
    answers = ["127.0.0.2", "127.0.0.1", "127.0.0.1"]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return [answers[len(asked) - 1]]

    async with WebServer({"/": Page("the secret")}) as private:
        innocent = WebServer({"/": Page("innocent")}, address="127.0.0.2", port=private.port)
        async with innocent:
            fetch = FetchPage(["rebind.example"], resolve=rebinding)
            page = await fetch.execute(url=f"http://rebind.example:{private.port}/")
            assert page["text"] == "innocent"
            assert asked == ["rebind.example"]
            assert innocent.requests == [("/", f"rebind.example:{private.port}")]
        assert private.requests == []


async def test_only_the_first_addresses_of_a_host_are_tried(server: WebServer) -> None:
    async def many(host: str, port: int) -> list[str]:
        return [*(f"127.0.0.{number}" for number in range(50, 50 + unreachable)), "127.0.0.1"]

    fetch = FetchPage(["many.example"], resolve=many)
    url = f"http://many.example:{server.port}/"
    unreachable = MAX_ADDRESSES - 1
    assert (await fetch.execute(url=url))["title"] == "The sea"
    unreachable = MAX_ADDRESSES
    with pytest.raises(Unavailable):
        await fetch.execute(url=url)


async def test_allowed_host_and_port_allow_no_other_port(server: WebServer) -> None:
    async with WebServer({"/": Page("other")}) as other:
        with pytest.raises(PermissionDenied):
            await fetcher(server).execute(url=f"{other.url}/")
        assert other.requests == []


async def test_proxy_of_the_environment_is_not_used(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with WebServer({}) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        await fetcher(server).execute(url=f"{server.url}/")
        assert proxy.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a.example/",
        "/etc/passwd",
        "http://",
        "http://user:pass@a.example/",
        "http://a" * 1000,
    ],
)
async def test_url_that_is_not_http_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="URL"):
        await FetchPage().execute(url=url)


async def test_header_lines_cannot_be_smuggled_in_a_url(server: WebServer) -> None:
    try:
        await fetcher(server).execute(url=f"{server.url}/a\r\nX-Evil: 1\r\n\r\nGET /secret HTTP/1.1")
    except ArchonError:
        pass
    assert all(path != "/secret" and "\r" not in path for path, _ in server.requests)
