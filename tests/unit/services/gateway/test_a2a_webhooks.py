"""Webhooks of A2A clients: only the address that was checked is dialled, and nothing is followed."""

from __future__ import annotations

import pytest

from archon.errors import FailedPrecondition, InvalidArgument, PermissionDenied, Unavailable
from archon_services.gateway.a2a.webhook import Webhooks
from tests.fixtures.hook_server import HookServer


async def test_an_allowed_host_gets_the_json() -> None:
    async with HookServer() as server:
        hooks = Webhooks([f"127.0.0.1:{server.port}"])
        await hooks.post(server.url, {"text": "grün"}, {"authorization": "Bearer x"})
    [(headers, body)] = server.requests
    assert body == '{"text": "grün"}'.encode()
    assert headers["authorization"] == "Bearer x" and headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with HookServer([status]) as server:
        with pytest.raises(FailedPrecondition, match=str(status)):
            await Webhooks([f"127.0.0.1:{server.port}"]).post(server.url, {}, {})
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "error"), [(429, Unavailable), (503, Unavailable), (404, FailedPrecondition)])
async def test_a_status_says_whether_it_is_tried_again(status: int, error: type[Exception]) -> None:
    async with HookServer([status]) as server:
        with pytest.raises(error):
            await Webhooks([f"127.0.0.1:{server.port}"]).post(server.url, {}, {})


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:192.168.0.1", "100.64.0.1"]
)
async def test_a_name_of_a_private_address_is_refused(address: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34", address]

    with pytest.raises(PermissionDenied, match="not a public address"):
        await Webhooks(resolve=resolve).post("https://hooks.example/x", {}, {})


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "nul\0", "ümlaut"])
def test_a_header_with_a_line_break_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgument, match="header"):
        Webhooks().check("https://hooks.example/", {"token": value})


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/hook",
        "https://[::ffff:10.0.0.1]/",
        "http://hooks.example/",
        "https://u:p@hooks.example/",
        "gopher://hooks.example/",
        "http://2130706433/",
        "https://0x7f000001/",
        "https://127.1/",
        "https://[::1]/",
        "https://",
        "x" * 3_000,
    ],
)
async def test_an_odd_address_is_refused(url: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]  # as the system resolves these names

    hooks = Webhooks(resolve=resolve)
    with pytest.raises((InvalidArgument, PermissionDenied)):
        hooks.check(url, {})
        await hooks.post(url, {}, {})
