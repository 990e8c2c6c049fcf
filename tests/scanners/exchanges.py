"""Requests of a browser with a session to every room of the gateway, and their responses as they are on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from archon.principal import Principal
from archon_services.gateway.identity.logins import issue
from archon_services.gateway.web.room import VIEWS
from tests.fixtures.agui_mesh import input_of, user
from tests.fixtures.http_gateway import ORCHESTRATOR, GatewayMesh

_JSON: Final = {"content-type": "application/json"}
_MCP: Final = {**_JSON, "accept": "application/json, text/event-stream"}
_MAX_ANSWER: Final = 400_000
"""Bytes of a response that are read: some streams do not end."""


@dataclass(slots=True)
class Exchanges:
    """Sends requests as a browser that is logged in, and keeps each with its response in `folder`."""

    http: httpx2.AsyncClient
    folder: Path
    names: list[str] = field(default_factory=list)

    async def send(
        self, name: str, method: str, path: str, *, content: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """Sends a request and keeps the exchange under a name."""
        same_site = {"sec-fetch-site": "same-origin"}
        request = self.http.build_request(method, path, content=content, headers={**same_site, **(headers or {})})
        response = await self.http.send(request, stream=True)
        answer = b""
        with suppress(httpx2.ReadTimeout):
            async for piece in response.aiter_bytes():
                answer += piece
                if len(answer) > _MAX_ANSWER:
                    break
        await response.aclose()
        base = self.folder / name
        line = f"{method} {request.url} HTTP/1.1"
        status = f"HTTP/1.1 {response.status_code} {response.reason_phrase}"
        self._write(base, ".url", str(request.url).encode())
        self._write(base, ".request", _head(line, request.headers))
        self._write(base, ".body", content)
        self._write(base, ".response", _head(status, response.headers))
        self._write(base, ".answer", answer)
        self.names.append(name)
        response._content = answer  # what was read of the stream
        return response

    def _write(self, base: Path, suffix: str, content: bytes) -> None:
        base.with_name(f"{base.name}{suffix}").write_bytes(content)


def _head(line: str, headers: httpx2.Headers) -> bytes:
    hidden = ("content-encoding", "transfer-encoding")  # the body is kept as it was decoded
    lines = [b"%s: %s" % (name, value) for name, value in headers.raw if name.decode().lower() not in hidden]
    return b"\r\n".join([line.encode(), *lines, b"", b""])


async def record_all(served: GatewayMesh, caller: Principal, folder: Path, told: str, **options: Any) -> list[str]:
    """Logs a browser in and calls every room; `told` is a run with a recorded model call. Returns the names of the
    exchanges."""
    assert served.keys is not None
    code = issue(Path(str(served.gateway.settings["login_folder"])), served.keys.token(caller))
    timeout = httpx2.Timeout(10.0, read=1.5)
    async with httpx2.AsyncClient(base_url=served.url, timeout=timeout, **options) as http:
        exchanges = Exchanges(http, folder)
        await exchanges.send("login", "GET", f"/login/once?code={code}", headers={"sec-fetch-site": "none"})
        assert http.cookies, "no session"
        await _page(exchanges)
        await _rpcs(exchanges)
        await _reports(exchanges, told)
        await _protocols(exchanges)
        await _mistakes(exchanges)
        await exchanges.send("logout", "POST", "/logout")
        return exchanges.names


async def _page(exchanges: Exchanges) -> None:
    document = await exchanges.send("page", "GET", "/")
    for view in VIEWS:
        await exchanges.send(f"page-{view}", "GET", f"/{view}")
    for number, asset in enumerate(re.findall(r'(?:src|href)="(/?[^"]+\.(?:js|css|svg|ico))"', document.text)):
        await exchanges.send(f"asset-{number}", "GET", f"/{asset.lstrip('./')}")
    for name in ("healthz", "readyz", "session", "openapi.json"):
        await exchanges.send(name, "GET", f"/{name}")


async def _rpcs(exchanges: Exchanges) -> None:
    body = json.dumps({"goal": [{"text": "hello"}], "roles": ["echo"], "wait": "10s"}).encode()
    submitted = await exchanges.send("connect", "POST", f"{ORCHESTRATOR}/SubmitRun", content=body, headers=_JSON)
    assert submitted.status_code == 200, submitted.text
    run_id = str(json.loads(submitted.content)["run"]["runId"])
    watch = json.dumps({"runId": run_id}).encode()
    stream = {"content-type": "application/connect+json"}
    envelope = b"\x00" + len(watch).to_bytes(4, "big") + watch
    await exchanges.send("connect-stream", "POST", f"{ORCHESTRATOR}/WatchRun", content=envelope, headers=stream)
    grpc_web = {"content-type": "application/grpc-web+proto", "x-grpc-web": "1"}
    await exchanges.send("grpc-web", "POST", f"{ORCHESTRATOR}/ListRuns", content=b"\0" * 5, headers=grpc_web)
    await exchanges.send("events", "GET", f"/events/runs/{run_id}")
    await exchanges.send("events-registry", "GET", "/events/registry")


async def _reports(exchanges: Exchanges, run_id: str) -> None:
    html = {"accept": "text/html"}
    for name in ("sources", "sources.svg", "time", "time.svg", "difference", "prompts", "prompts/1"):
        response = await exchanges.send(
            f"report-{name.replace('/', '-')}", "GET", f"/reports/runs/{run_id}/{name}", headers=html
        )
        assert response.status_code == 200, name
    await exchanges.send("report-style", "GET", "/reports/style.css")
    await exchanges.send("report-trials", "GET", "/reports/trials")
    wanted = json.dumps({"runId": run_id}).encode()
    link = await exchanges.send("share-link", "POST", "/share-links", content=wanted, headers=_JSON)
    assert link.status_code == 201, link.text
    await exchanges.send("share-links", "GET", f"/share-links?run={run_id}")


async def _protocols(exchanges: Exchanges) -> None:
    await exchanges.send("a2a-card", "GET", "/.well-known/agent-card.json")
    await exchanges.send("a2a-keys", "GET", "/.well-known/jwks.json")
    part = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "hello"}]}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": part}}
    version = {**_JSON, "a2a-version": "1.0"}
    await exchanges.send("a2a", "POST", "/a2a/roles/echo", content=json.dumps(rpc).encode(), headers=version)
    rest = json.dumps({"message": {**part, "messageId": "m2"}}).encode()
    await exchanges.send("a2a-rest", "POST", "/a2a/roles/echo/message:send", content=rest, headers=version)
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "scan", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    await exchanges.send("mcp", "POST", "/mcp", content=json.dumps(first).encode(), headers=_MCP)
    tools = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    await exchanges.send("mcp-tools", "POST", "/mcp", content=json.dumps(tools).encode(), headers=_MCP)
    await exchanges.send("mcp-metadata", "GET", "/.well-known/oauth-protected-resource/mcp")
    await exchanges.send("agui-card", "GET", "/agui/echo")
    words = json.dumps(input_of(user("hello"))).encode()
    await exchanges.send("agui", "POST", "/agui/echo", content=words, headers=_JSON)
    await exchanges.send("chain", "GET", "/audit-chains")


async def _mistakes(exchanges: Exchanges) -> None:
    await exchanges.send("unknown", "GET", "/nothing/<script>alert(1)</script>?q=%22%3E%3Cscript%3E")
    await exchanges.send("unknown-run", "GET", "/events/runs/nothing")
    await exchanges.send("shared", "GET", "/shared/nothing")
    await exchanges.send("login-away", "GET", "/login?next=https://evil.example")
    await exchanges.send("once-again", "GET", "/login/once?code=nothing&next=//evil.example")
    await exchanges.send("not-json", "POST", f"{ORCHESTRATOR}/ListRuns", content=b"{", headers=_JSON)
    await exchanges.send("cross-site", "POST", "/logout", headers={"sec-fetch-site": "cross-site"})
    await exchanges.send("preflight", "OPTIONS", "/session", headers={"origin": "https://evil.example"})
