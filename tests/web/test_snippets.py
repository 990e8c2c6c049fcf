"""The TypeScript of docs/http.md in a browser, and a page of another origin that calls with a token."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from archon_services.gateway.identity.logins import issue
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, GatewayMesh, gateway_mesh
from tests.fixtures.ports import free_ports
from tests.fixtures.require import missing
from tests.interop import node22

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
STRIP = """
import { stripTypeScriptTypes } from "node:module";
let text = "";
for await (const piece of process.stdin) text += piece;
process.stdout.write(stripTypeScriptTypes(text));
"""


def script() -> str:
    """The program of the page, without its types."""
    [source] = re.findall(r"```typescript\n(.*?)```", PAGE, re.S)
    node = node22.find()
    if node is None:
        missing(node22.NAME, "needs Node 22")
    command = [str(node), "--no-warnings", "--input-type=module", "-e", STRIP]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=30, check=True)
    return str(done.stdout).replace("export ", "")


@asynccontextmanager
async def page_server() -> AsyncIterator[str]:
    """Serves an empty page on a port of its own, which is another origin; yields it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>app</p>")
        await writer.drain()
        writer.close()

    [port] = free_ports(1)
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield f"http://127.0.0.1:{port}"


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GatewayMesh]:
    folder = Path(tmp_path_factory.mktemp("snippets"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with page_server() as elsewhere, gateway_mesh(folder, monkeypatch, origins=elsewhere) as mesh:
            yield mesh


async def test_the_program_of_the_page_asks_and_follows_the_run(served: GatewayMesh, chromium: Browser) -> None:
    assert served.keys is not None
    code = issue(served.mesh.home / "logins", served.keys.token(OPERATOR))
    context = await chromium.new_context()
    page = await context.new_page()
    try:
        await page.goto(f"{served.url}/login/once?code={code}")
        asked: Any = await page.evaluate(
            f"""async () => {{
                {script()}
                const events = [];
                const run = await ask("hello", ["echo"], (event) => events.push(event));
                const refused = await ask("hello", ["no-such-role"], () => {{}}).catch((error) => error.message);
                return {{ run, events, refused }};
            }}"""
        )
    finally:
        await context.close()
    assert asked["run"]["answers"][0]["parts"][0]["text"] == "echo: hello"
    durable = [int(event["seq"]) for event in asked["events"] if "seq" in event]
    assert durable == list(range(1, len(durable) + 1))
    assert asked["events"][-1]["runState"]["state"] == "TASK_STATE_COMPLETED"
    assert asked["refused"].startswith("not_found: ")


async def test_a_page_elsewhere_calls_and_watches_with_a_token(served: GatewayMesh, chromium: Browser) -> None:
    context = await chromium.new_context()
    page = await context.new_page()
    try:
        await page.goto(str(served.gateway.settings["origins"]))
        answered: Any = await page.evaluate(
            """async ([url, authorization]) => {
                const post = (rpc, type, body) =>
                    fetch(`${url}/${rpc}`, { method: "POST", headers: { ...authorization, "Content-Type": type }, body });
                const request = { goal: [{ text: "hello" }], roles: ["echo"], wait: "10s" };
                const submitted = await post("SubmitRun", "application/json", JSON.stringify(request));
                const { run } = await submitted.json();
                const message = new TextEncoder().encode(JSON.stringify({ runId: run.runId }));
                const body = new Uint8Array([0, 0, 0, 0, message.length, ...message]);
                const watched = await post("WatchRun", "application/connect+json", body);
                const bare = await fetch(`${url}/ListRuns`, { method: "POST", body: "{}" }).catch(String);
                return { state: run.state, stream: await watched.text(), bare: bare.status ?? bare };
            }""",
            [served.url + ORCHESTRATOR, served.headers(OPERATOR)],
        )
    finally:
        await context.close()
    assert answered["state"] == "TASK_STATE_COMPLETED"
    assert '"runState"' in answered["stream"]
    assert answered["bare"] != 200
