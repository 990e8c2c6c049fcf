"""Faults of Connect and gRPC-Web servers that others have reported, tried against the gateway's RPCs."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from typing import Any, Final
from urllib.parse import unquote

import pytest

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, VIEWER, GatewayMesh

JSON: Final = {"content-type": "application/json"}
STREAM: Final = {"content-type": "application/connect+json"}
WEB: Final = {"content-type": "application/grpc-web+proto", "x-grpc-web": "1"}


def envelope(message: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(message)) + message


def get_run(run_id: str) -> bytes:
    return envelope(pb.GetRunRequest(run_id=run_id).SerializeToString())


def trailers_of(answer: Any) -> dict[str, str]:
    """Returns the status of a gRPC-Web answer: of the last frame of its body, or of its headers."""
    content, last = answer.content, b""
    while content:
        flags, size = struct.unpack(">BI", content[:5])
        last, content = (content[5 : 5 + size] if flags & 0x80 else b""), content[5 + size :]
    lines = [line.split(":", 1) for line in last.decode().split("\r\n") if line]
    return {name.strip().lower(): value.strip() for name, value in lines} or dict(answer.headers)


UNARY: Final[list[tuple[str, dict[str, str], bytes, int, str]]] = [
    ("an empty body", {}, b"", 400, "invalid_argument"),
    ("null", {}, b"null", 400, "invalid_argument"),
    ("an empty array", {}, b" []", 400, "invalid_argument"),
    ("a byte order mark", {}, b"\xef\xbb\xbf{}", 400, "invalid_argument"),
    ("an unknown field", {}, b'{"nothing":1}', 200, ""),
    ("a key twice", {}, b'{"pageSize":1,"pageSize":2}', 400, "invalid_argument"),
    ("NaN", {}, b'{"pageSize":NaN}', 400, "invalid_argument"),
    ("a number above all", {}, b'{"pageSize":1e400}', 400, "invalid_argument"),
    ("a number of 5,000 digits", {}, b'{"pageSize":' + b"9" * 5_000 + b"}", 400, "invalid_argument"),
    ("a fraction", {}, b'{"pageSize":1.5}', 400, "invalid_argument"),
    ("a number as a text", {}, b'{"pageSize":"5"}', 200, ""),
    ("an empty text for a number", {}, b'{"pageSize":""}', 400, "invalid_argument"),
    ("100,000 brackets", {}, b'{"goal":' + b"[" * 100_000 + b"}", 400, "invalid_argument"),
    ("half of a character", {}, b'{"sessionId":"\\ud800"}', 400, "invalid_argument"),
    ("no UTF-8", {}, b'{"sessionId":"\xff"}', 400, "invalid_argument"),
    ("another charset", {"content-type": "application/json; charset=utf-16"}, b"{}", 200, ""),
    ("a timeout of nothing", {"connect-timeout-ms": "0"}, b"{}", 504, "deadline_exceeded"),
    ("a negative timeout", {"connect-timeout-ms": "-1"}, b"{}", 400, "invalid_argument"),
    ("a timeout with a sign", {"connect-timeout-ms": "+5"}, b"{}", 400, "invalid_argument"),
    ("a timeout of eleven digits", {"connect-timeout-ms": "99999999999"}, b"{}", 400, "invalid_argument"),
    ("a timeout of ten digits", {"connect-timeout-ms": "9999999999"}, b"{}", 200, ""),
    ("no version of the protocol", {}, b"{}", 200, ""),
    ("another version of the protocol", {"connect-protocol-version": "2"}, b"{}", 400, "invalid_argument"),
    ("an unknown compression", {"content-encoding": "snappy"}, b"{}", 501, "unimplemented"),
    ("no compression by its name", {"content-encoding": "identity"}, b"{}", 200, ""),
    ("no gzip", {"content-encoding": "gzip"}, b"{}", 400, "invalid_argument"),
    ("half of gzip", {"content-encoding": "gzip"}, gzip.compress(b"{}")[:-8], 400, "invalid_argument"),
    ("a bomb", {"content-encoding": "gzip"}, gzip.compress(b" " * 40_000_000), 429, "resource_exhausted"),
    ("trailers", {"te": "trailers"}, b"{}", 200, ""),
    ("weights of encodings", {"accept-encoding": "identity;q=0, *;q=0"}, b"{}", 200, ""),
]


async def test_unary_calls_of_others_reports_are_answered(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        for name, headers, content, code, error in UNARY:
            answer = await http.post(f"{ORCHESTRATOR}/ListRuns", content=content, headers={**JSON, **headers})
            assert (answer.status_code, answer.json().get("code", "")) == (code, error), name
            assert answer.headers["content-type"] == "application/json", name
            assert "TypeError" not in answer.json().get("message", ""), "no exception of the server"
            assert answer.headers.get("content-encoding") != "identity", "with which proxies compress nothing"


STREAMS: Final[list[tuple[str, dict[str, str], bytes, str]]] = [
    ("no message", {}, b"", "unimplemented"),
    ("half of a head", {}, b"\0\0\0", "invalid_argument"),
    ("half of a message", {}, envelope(b'{"runId":"x"}')[:-3], "invalid_argument"),
    ("two messages", {}, envelope(b'{"runId":"x"}') * 2, "unimplemented"),
    ("the end first", {}, envelope(b"{}", 2), "invalid_argument"),
    ("unknown flags", {}, envelope(b"{}", 0xFF), "invalid_argument"),
    ("compressed without a name", {}, envelope(gzip.compress(b"{}"), 1), "internal"),
    ("compressed", {"connect-content-encoding": "gzip"}, envelope(gzip.compress(b'{"runId":"x"}'), 1), "not_found"),
    ("an unknown compression", {"connect-content-encoding": "snappy"}, envelope(b"{}"), "unimplemented"),
    ("a size of 4 GiB", {}, b"\0\xff\xff\xff\xff{}", "resource_exhausted"),
    ("a timeout of nothing", {"connect-timeout-ms": "0"}, envelope(b'{"runId":"x"}'), "deadline_exceeded"),
]


async def test_streams_of_others_reports_end_with_a_typed_message(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        for name, headers, content, error in STREAMS:
            answer = await http.post(f"{ORCHESTRATOR}/WatchRun", content=content, headers={**STREAM, **headers})
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/connect+json"), name
            flags, size = struct.unpack(">BI", answer.content[:5])
            assert (flags, size) == (2, len(answer.content) - 5), name
            assert json.loads(answer.content[5:])["error"]["code"] == error, name


async def test_the_end_of_a_stream_is_compressed_as_its_flag_says(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        headers = {**STREAM, "connect-accept-encoding": "gzip"}
        answer = await http.post(f"{ORCHESTRATOR}/WatchRun", content=envelope(b'{"runId":"x"}'), headers=headers)
    assert answer.headers["connect-content-encoding"] == "gzip"
    assert answer.content[0] == 3
    assert json.loads(gzip.decompress(answer.content[5:]))["error"]["code"] == "not_found"


WEB_CALLS: Final[list[tuple[str, dict[str, str], bytes, int]]] = [
    ("no message", {}, b"", 12),
    ("two messages", {}, get_run("a") + get_run("b"), 12),
    ("trailers of a client", {}, get_run("a") + envelope(b"grpc-status: 0\r\n", 0x80), 3),
    ("an unknown compression", {"grpc-encoding": "snappy"}, get_run("a"), 12),
    ("a timeout of nothing", {"grpc-timeout": "0n"}, get_run("a"), 4),
    ("a negative timeout", {"grpc-timeout": "-1S"}, get_run("a"), 3),
    ("a timeout of nine digits", {"grpc-timeout": "999999999H"}, get_run("a"), 3),
    ("a timeout of 11,000 years", {"grpc-timeout": "99999999H"}, get_run("a"), 5),
    ("a timeout without a unit", {"grpc-timeout": "5"}, get_run("a"), 3),
    ("a token of no caller", {"authorization": "Bearer x"}, get_run("a"), 16),
]


async def test_grpc_web_calls_of_others_reports_have_a_status(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        for name, headers, content, code in WEB_CALLS:
            answer = await http.post(f"{ORCHESTRATOR}/GetRun", content=content, headers={**WEB, **headers})
            assert answer.status_code == 200, name
            assert answer.headers["content-type"].startswith("application/grpc-web"), name
            assert trailers_of(answer)["grpc-status"] == str(code), name


@pytest.mark.parametrize("run_id", ["größe \U0001f600", "a\r\nset-cookie: x=y", "50%20", "é" * 3_000])
async def test_the_message_of_an_error_is_percent_encoded(served: GatewayMesh, run_id: str) -> None:
    async with served.http(VIEWER) as http:
        answer = await http.post(f"{ORCHESTRATOR}/GetRun", content=get_run(run_id), headers=WEB)
    trailers = trailers_of(answer)
    assert trailers["grpc-message"].isascii() and set(trailers) <= {
        "grpc-status",
        "grpc-message",
        "grpc-status-details-bin",
    }
    assert unquote(trailers["grpc-message"]).startswith("there is no run")
    packed = trailers["grpc-status-details-bin"]
    assert base64.b64decode(packed + "=" * (-len(packed) % 4)), "binary values are base64, padded or not"


async def test_reads_over_get_are_refused_with_what_is_allowed(served: GatewayMesh) -> None:
    """No RPC of the contract says that it has no effect, so that no cache and no page ahead calls one."""
    query = "connect=v1&encoding=proto&base64=1&message="
    async with served.http(OPERATOR) as http:
        answer = await http.get(f"{ORCHESTRATOR}/ListRuns?{query}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
