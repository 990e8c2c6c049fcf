"""RPCs over the HTTP gateway: Connect, gRPC-Web and JSON reach the services as the caller, errors come back typed."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from typing import Any

import pytest
from google.rpc import error_details_pb2, status_pb2

from archon import status
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.security.policy import POLICY
from archon_services.gateway.descriptors import all_rpcs
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, REGISTRY, STRANGER, VIEWER, GatewayMesh


def _reason(content: dict[str, Any]) -> str:
    for detail in content["details"]:
        if detail["type"] == "google.rpc.ErrorInfo":
            raw = base64.b64decode(detail["value"] + "=" * (-len(detail["value"]) % 4))
            return str(error_details_pb2.ErrorInfo.FromString(raw).reason)
    return ""


def _envelopes(body: bytes) -> list[tuple[int, bytes]]:
    found = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        found.append((flags, body[5 : 5 + size]))
        body = body[5 + size :]
    return found


def _envelope(message: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(message)) + message


async def test_json_submits_a_run_as_the_caller(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        run = (await http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": run_id})).json()["run"]
    assert run["state"] == "TASK_STATE_COMPLETED"
    assert run["answers"][0]["parts"][0]["text"] == "echo: hello", run
    assert run["identity"] == "olga"


async def test_protobuf_and_gzip_give_the_same_as_json(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        plain = await http.post(f"{ORCHESTRATOR}/ListRuns", json={"pageSize": 1})
        request = pb.ListRunsRequest(page_size=1).SerializeToString()
        headers = {"content-type": "application/proto", "content-encoding": "gzip"}
        packed = await http.post(f"{ORCHESTRATOR}/ListRuns", content=gzip.compress(request), headers=headers)
    runs = pb.ListRunsResponse.FromString(packed.content).runs
    assert [run.run_id for run in runs] == [run["runId"] for run in plain.json().get("runs", [])]


async def test_policy_decides_by_the_token_of_the_caller(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        refused = await http.post(f"{ORCHESTRATOR}/SubmitRun", json={"goal": [{"text": "x"}]})
    async with served.http() as http:
        anonymous = await http.post(f"{ORCHESTRATOR}/ListRuns", json={})
    assert (refused.status_code, _reason(refused.json())) == (403, "PERMISSION_DENIED")
    assert (anonymous.status_code, _reason(anonymous.json())) == (401, "TOKEN_MISSING")
    assert anonymous.headers["www-authenticate"].startswith("Bearer")


async def test_a_run_of_another_tenant_does_not_exist(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
    async with served.http(STRANGER) as http:
        answer = await http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": run_id})
    assert (answer.status_code, answer.json()["code"], _reason(answer.json())) == (404, "not_found", "UNKNOWN_RUN")


async def test_an_expired_token_is_refused(served: GatewayMesh) -> None:
    async with served.http(headers=served.headers(VIEWER, seconds=-10)) as http:
        answer = await http.post(f"{ORCHESTRATOR}/ListRuns", json={})
    assert (answer.status_code, _reason(answer.json())) == (401, "TOKEN_EXPIRED")


async def test_no_visitor_acts_for_others_unless_it_may(served: GatewayMesh) -> None:
    async with served.http(OPERATOR, headers={"archon-identity": "ann"}) as http:
        answer = await http.post(f"{ORCHESTRATOR}/ListRuns", json={})
    assert answer.status_code == 403


async def test_a_connect_stream_has_all_events_and_an_end(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        body = _envelope(json.dumps({"runId": run_id}).encode())
        headers = {"content-type": "application/connect+json"}
        answer = await http.post(f"{ORCHESTRATOR}/WatchRun", content=body, headers=headers)
    *messages, (flags, end) = _envelopes(answer.content)
    events = [event for _, message in messages for event in json.loads(message).get("events", [])]
    assert [int(event["seq"]) for event in events if "seq" in event] == list(range(1, len(events) + 1))
    assert (flags & 2, json.loads(end)) == (2, {})


async def test_grpc_web_has_messages_and_trailers(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        headers = {"content-type": "application/grpc-web+proto", "x-grpc-web": "1"}
        good = await http.post(f"{ORCHESTRATOR}/ListRuns", content=_envelope(b""), headers=headers)
        bad = await http.post(
            f"{ORCHESTRATOR}/GetRun",
            content=_envelope(pb.GetRunRequest(run_id="no-run").SerializeToString()),
            headers=headers,
        )
    (_, message), (flags, trailers) = _envelopes(good.content)
    pb.ListRunsResponse.FromString(message)
    assert (flags, b"grpc-status: 0" in trailers.lower()) == (0x80, True)
    fields = (
        {
            **bad.headers,
            **dict(line.split(": ", 1) for line in _envelopes(bad.content)[-1][1].decode().split("\r\n") if line),
        }
        if bad.content
        else dict(bad.headers)
    )
    packed = {name.lower(): value for name, value in fields.items()}["grpc-status-details-bin"]
    found = status_pb2.Status.FromString(base64.b64decode(packed + "=" * (-len(packed) % 4)))
    assert status.from_status(found).reason == "UNKNOWN_RUN"


async def test_a_timeout_of_the_caller_ends_the_call_below(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        body = {"goal": [{"text": "x"}], "roles": ["served-by-none"], "wait": "60s"}
        answer = await http.post(f"{ORCHESTRATOR}/SubmitRun", json=body, headers={"connect-timeout-ms": "300"})
    assert answer.json()["code"] in ("deadline_exceeded", "not_found")


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "code", "name"),
    [
        ("GET", f"{ORCHESTRATOR}/ListRuns", {}, b"", 405, "invalid_argument"),
        ("POST", f"{ORCHESTRATOR}/ListRuns", {"content-type": "text/plain"}, b"{}", 415, "invalid_argument"),
        ("POST", f"{ORCHESTRATOR}/ListRuns", {"content-type": "application/grpc"}, b"", 415, "invalid_argument"),
        ("POST", f"{ORCHESTRATOR}/Converse", {"content-type": "application/connect+json"}, b"", 501, "unimplemented"),
        ("POST", f"{ORCHESTRATOR}/WatchRun", {"content-type": "application/json"}, b"{}", 415, "invalid_argument"),
        ("POST", f"{ORCHESTRATOR}/Nothing", {"content-type": "application/json"}, b"{}", 404, "unimplemented"),
        ("POST", "/archon.api.agent.v1.AgentService/RunTask", {}, b"{}", 404, "not_found"),
        ("POST", f"{ORCHESTRATOR}/ListRuns", {"content-type": "application/json"}, b"{", 400, "invalid_argument"),
        ("POST", f"{ORCHESTRATOR}/ListRuns", {"content-type": "application/proto"}, b"\xff", 400, "invalid_argument"),
        ("POST", f"{ORCHESTRATOR}/ListRuns", {"content-type": "application/json; charset=utf-8"}, b"{}", 200, ""),
    ],
)
async def test_the_form_of_a_request_is_checked(
    served: GatewayMesh, method: str, path: str, headers: dict[str, str], body: bytes, code: int, name: str
) -> None:
    async with served.http(VIEWER) as http:
        answer = await http.request(method, path, headers=headers, content=body)
    assert (answer.status_code, answer.json().get("code", "")) == (code, name)


async def test_every_rpc_of_services_is_in_the_gateway_and_the_policy() -> None:
    of_members = ("/archon.api.agent.", "/archon.api.tool.")
    assert {rpc.path for rpc in all_rpcs()} == {path for path in POLICY if not path.startswith(of_members)}


async def test_the_registry_answers_over_http(served: GatewayMesh) -> None:
    async with served.http(VIEWER) as http:
        answer = await http.post(f"{REGISTRY}/ListInstances", json={})
    assert [each["role"] for each in answer.json()["instances"]] == ["echo"]
