"""Random requests at the HTTP gateway: each gets a typed answer or is cut off, and none is an internal error."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
from typing import Final

import pytest

from archon_services.gateway import connections
from archon_services.gateway.descriptors import all_rpcs
from tests.fixtures.http_gateway import OPERATOR, GatewayMesh

PATHS: Final = (
    *(rpc.path for rpc in all_rpcs()),
    *(
        "/events/runs/x",
        "/events/runs/%00",
        "/shared/a.b.c",
        "/shared/a.b.c/events",
        "/login",
        "/login/once?code=%2e%2e",
    ),
    *(
        "/login/callback?state=x&code=y",
        "/logout",
        "/session",
        "/openapi.json",
        "/healthz",
        "/",
        "//",
        "/%ff",
        "/a/../b",
    ),
)
TYPES: Final = (
    *("application/json", "application/proto", "application/connect+json", "application/connect+proto", "text/plain"),
    *("application/grpc-web+proto", "application/grpc-web-text", "application/grpc", "application/json; charset=x", ""),
)
BODIES: Final = (
    *(b"", b"{}", b"null", b"[]", b"{", b'{"runId": 5}', b'{"pageSize": -1}', b'{"pageSize": 1e99}', b"[" * 5_000),
    *(
        b'{"a":' * 3_000,
        b'{"goal":[{"text":"\\ud800"}]}',
        b"\xff\xfe",
        b"\x00\x00\x00\x00\x02{}",
        b"\x02\xff\xff\xff\xff",
    ),
    *(b"\x01\x00\x00\x00\x05hello", b"\x80\x00\x00\x00\x00", b"\x00" * 6, b"\x0a\xff\xff\xff\xff\x0f"),
)
HEADERS: Final = (
    *(
        "connect-timeout-ms: -1",
        "connect-timeout-ms: 99999999999",
        "connect-timeout-ms: 5",
        "grpc-timeout: 1Q",
        "grpc-timeout: 0n",
    ),
    *(
        "content-encoding: gzip",
        "content-encoding: x",
        "connect-content-encoding: br",
        "grpc-encoding: gzip",
        "accept-encoding: x",
    ),
    *(
        "last-event-id: -5",
        "last-event-id: 9223372036854775808",
        "cookie: archon_session=x; ;=;",
        "cookie: " + "a" * 9_000,
    ),
    *(
        "origin: null",
        "sec-fetch-site: cross-site",
        "connect-protocol-version: 9",
        "expect: 100-continue",
        "upgrade: websocket",
    ),
    *(
        "archon-tenant: ../x",
        "archon-identity: \t",
        "traceparent: zz",
        "authorization: Basic x",
        "x-http-method-override: PUT",
    ),
)
METHODS: Final = ("POST", "POST", "POST", "GET", "HEAD", "PUT", "OPTIONS", "DELETE", "TRACE", "get")


def _request(chance: random.Random, token: str) -> bytes:
    """Returns a request, some of them with a few bytes changed."""
    body = chance.choice(BODIES) if chance.random() < 0.8 else chance.randbytes(chance.randrange(300))
    lines = [f"{chance.choice(METHODS)} {chance.choice(PATHS)} HTTP/1.1", "host: localhost", "connection: close"]
    lines += [f"content-length: {len(body)}", f"content-type: {chance.choice(TYPES)}"]
    lines += chance.sample(HEADERS, chance.randrange(4))
    if chance.random() < 0.8:
        lines.append(f"authorization: {token}")
    raw = bytearray("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    if chance.random() < 0.2:
        for _ in range(chance.randrange(1, 4)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(raw)


def _is_complete(raw: bytes) -> bool:
    """Returns whether the server has nothing more to wait for."""
    head, _, body = raw.partition(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head)
    return b"chunked" not in head and (size is None or len(body) >= int(size[1]))


async def _answer(served: GatewayMesh, raw: bytes) -> bytes:
    """Returns what comes back within a moment: a stream goes on, and a request whose end is missing has none."""
    host, _, port = served.gateway.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = b""
    try:
        writer.write(raw)
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 100 " in head[:13]:
                head = await reader.readuntil(b"\r\n\r\n")
            if b"event-stream" in head or raw.startswith(b"HEAD") or b" 204 " in head[:13]:
                return head
            if size := re.search(rb"content-length: (\d+)", head):  # the connection may be kept
                return head + await reader.readexactly(int(size[1]))
            return head + await reader.readuntil(b"0\r\n\r\n" if b"chunked" in head else b"\n")
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        return head + getattr(error, "partial", b"")
    except TimeoutError:
        if _is_complete(raw):
            raise
        return head
    finally:
        writer.transport.abort()


MANY: Final = int(os.environ.get("ARCHON_FUZZ_REQUESTS") or 20_000)


@pytest.mark.parametrize("number", [120, pytest.param(MANY, marks=pytest.mark.search)])
async def test_no_request_is_an_internal_error(
    served: GatewayMesh, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr("archon_services.common.rates.Rates.admit", lambda *_: None)
    chance = random.Random(number)
    token = served.headers(OPERATOR, seconds=36_000)["authorization"]
    answered = 0
    with caplog.at_level(logging.ERROR):
        for _ in range(number // 20):
            sent = [_request(chance, token) for _ in range(20)]
            for raw, answer in zip(sent, await asyncio.gather(*(_answer(served, raw) for raw in sent)), strict=True):
                head, _, body = answer.partition(b"\r\n\r\n")
                if not head:
                    continue
                answered += 1
                status = int(head.split(b" ", 2)[1])
                assert status < 500 or status in (501, 503, 504), (raw, answer)
                if status >= 400 and b"application/json" in head and not raw.startswith(b"HEAD"):
                    assert b'"code":' in body, (raw, answer)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert answered > number // 2
    async with served.http() as http:
        assert json.loads((await http.get("/healthz")).content) == {"status": "SERVING"}
