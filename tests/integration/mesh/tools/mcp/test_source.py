"""Tools of real MCP servers, over pipes and HTTP: what they become, what fails, and what a hostile server gets."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from archon.failure_kinds import RetryAdvice
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.credentials import Secret
from archon_mesh.tools.image import Image
from archon_mesh.tools.mcp import McpToolSource
from archon_mesh.tools.mcp import package as mcp_package
from archon_mesh.tools.mcp import transport as mcp_transport
from archon_mesh.tools.mcp.listing import MAX_DESCRIPTION, MAX_TOOLS
from tests.fixtures.async_generators import unclosed_generators
from tests.fixtures.fork_server import ForkServer
from tests.fixtures.mcp_server import PNG
from tests.fixtures.ports import free_ports
from tests.fixtures.programs import program
from tests.fixtures.waiting import until
from tests.fixtures.web_server import Page, WebServer

ROOT = Path(__file__).parents[5]
SERVER = [str(ROOT / "tests" / "fixtures" / "mcp_server.py")]
PLAIN_SERVER = [str(ROOT / "tests" / "fixtures" / "plain_mcp_server.py")]


async def no_pause(_: float) -> None:
    await asyncio.sleep(0)


def over_pipes(args: list[str] = SERVER, **fields: Any) -> McpToolSource:
    return McpToolSource("testing", command=sys.executable, args=args, random=lambda: 0.0, **fields)


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    """A fork server with the package `mcp`, which takes longer to import than all else."""
    server = ForkServer(("tests.fixtures.mcp_server", "mcp.server.streamable_http_manager", "uvicorn"))
    yield server
    server.close()


@asynccontextmanager
async def serving(forks: ForkServer, log: Path) -> AsyncIterator[str]:
    """Runs a server over HTTP; yields its URL."""
    (port,) = free_ports(1)
    arguments = ["-m", "tests.fixtures.mcp_server", str(port)]
    async with program(arguments, os.environ, log, server=forks):
        await until(lambda: listens(port), 60)
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(params=["pipes", "http"])
async def source(request: pytest.FixtureRequest, forks: ForkServer, tmp_path: Path) -> AsyncIterator[McpToolSource]:
    """A source of each transport."""
    if request.param == "http":
        async with serving(forks, tmp_path / "log") as url, McpToolSource("testing", url=url) as connected:
            yield connected
    else:
        async with over_pipes() as connected:
            yield connected


def engine_of(source: McpToolSource, **fields: Any) -> ToolExecutionEngine:
    registry = ToolRegistry()
    source.register(registry)
    return ToolExecutionEngine(registry, **fields)


async def test_a_picture_of_a_server_reaches_the_model(source: McpToolSource) -> None:
    model = ScriptedModel([ToolCall("1", "testing.picture", "{}"), "A dot."])
    await Agent("viewer", model=model, tool_sources=[source]).run_async("What is it?")
    assert [file.data for file in model.requests[-1].messages[-1].files] == [PNG]


async def test_tools_of_a_server_are_listed_and_called(source: McpToolSource, tmp_path: Path) -> None:
    engine = engine_of(source)
    assert "testing.add" in engine.registry.names
    tools = {tool.name: tool for tool in source.tools}
    assert (tools["add"].description, tools["add"].idempotent, tools["add"].dangerous) == (
        "Adds two numbers.",
        True,
        False,
    )
    assert (tools["environment"].idempotent, tools["wipe"].dangerous, tools["fail"].dangerous) == (True, True, False)
    assert (await engine.execute_tool_call("testing.add", {"a": 2, "b": 3})).content == {"result": 5}
    wrong = await engine.execute_tool_call("testing.add", {"a": "two"})
    assert wrong.metadata["kind"] == "tool.invalid_parameters"
    failed = await engine.execute_tool_call("testing.fail", {"why": "no paper"})
    assert not failed.ok
    assert "no paper" in failed.error_message
    text, image = (await engine.execute_tool_call("testing.picture")).content
    assert (text, image) == ("a dot", Image(PNG, "image/png"))
    resources = await engine.execute_tool_call("testing.resources")
    assert resources.content == "a note\n[more: file:///more.txt]\nthe end"
    call = asyncio.create_task(engine.execute_tool_call("testing.hang", {"folder": str(tmp_path)}))
    await until(lambda: (tmp_path / "began").exists(), 30)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: (tmp_path / "cancelled").exists(), 30)


@pytest.fixture
async def url(forks: ForkServer, tmp_path: Path) -> AsyncIterator[str]:
    """A server over HTTP."""
    async with serving(forks, tmp_path / "log") as served:
        yield served


async def test_destructive_tool_must_be_allowed_by_its_name(url: str) -> None:
    async with McpToolSource("testing", url=url) as source:
        refused = await engine_of(source).execute_tool_call("testing.wipe")
        assert refused.metadata["code"] == "PERMISSION_DENIED"
        allowed = engine_of(source, permissions={"allowed": ["testing.*", "testing.wipe"]})
        assert (await allowed.execute_tool_call("testing.wipe")).content == {"result": "wiped"}
    async with McpToolSource("testing", url=url, trusted=True) as source:
        assert (await engine_of(source).execute_tool_call("testing.wipe")).ok


async def test_list_that_changes_is_taken_over(source: McpToolSource) -> None:
    engine = engine_of(source)
    kept = engine.registry.find("testing.add")
    assert "testing.picture" in engine.registry
    await engine.execute_tool_call("testing.grow", {"name": "later"})
    await until(lambda: "testing.later" in engine.registry, 30)
    assert "testing.picture" not in engine.registry
    assert engine.registry.find("testing.add") is kept, "a tool that did not change keeps its health"
    assert (await engine.execute_tool_call("testing.later")).content == {"result": "grown later"}


async def test_server_gets_no_more_of_the_environment_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with over_pipes(PLAIN_SERVER, env={"GREETING": "hello"}) as source:
        environment = {tool.name: tool.description for tool in source.tools if tool.name not in ("add", "die")}
    assert "OPENAI_API_KEY" not in environment
    assert environment["GREETING"] == "hello"
    assert set(environment) <= {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "GREETING"}


async def test_server_that_dies_is_started_again() -> None:
    async with over_pipes(PLAIN_SERVER) as source:
        engine = engine_of(source)
        died = await engine.execute_tool_call("testing.die")
        assert died.metadata["code"] == "UNAVAILABLE"
        await until(lambda: source.is_connected, 60)
        assert (await engine.execute_tool_call("testing.add", {"a": 1, "b": 1})).ok


def servers() -> set[int]:
    """Returns the processes of servers that this process has started."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "mcp_server" in str(child.cmdline()):
                found.add(child.pid)
    return found


@pytest.mark.slow
async def test_server_that_dies_while_idle_is_started_again(tmp_path: Path) -> None:
    ending = servers()  # of tests before this one
    async with over_pipes() as source:
        before = servers() - ending
        assert len(before) == 1
        psutil.Process(*before).kill()
        await until(lambda: not source.is_connected, 30)
        refused = await engine_of(source).execute_tool_call("testing.wipe", {}, 5)
        assert not refused.ok
        await until(lambda: source.is_connected, 60)
    assert not any(psutil.pid_exists(pid) for pid in before)


ONCE = """
import pathlib, runpy, sys
flag, server = pathlib.Path(sys.argv[1]), sys.argv[2]
if flag.exists():
    sys.exit(1)
flag.touch()
sys.argv = [server]
runpy.run_path(server, run_name="__main__")
"""


@pytest.mark.slow
async def test_pauses_between_connections_double(tmp_path: Path) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    args = ["-c", ONCE, str(tmp_path / "flag"), *SERVER]
    source = McpToolSource("testing", command=sys.executable, args=args, sleep=sleep, random=lambda: 1.0)
    async with source:
        await engine_of(source).execute_tool_call("testing.die")
        await until(lambda: 2.0 in pauses, 60)
    assert pauses[:3] == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("import time; time.sleep(600)", DeadlineExceeded),
        ("import sys; sys.exit(3)", Unavailable),
        ("while True: print('garbage')", Unavailable),
        ("while True: print('x' * 65536, end='')", Unavailable),
        (
            'import sys\nfor line in sys.stdin: print(\'{"jsonrpc": "2.0", "id": 1, "result": 5}\', flush=True)',
            ArchonError,
        ),
        ("import sys\nfor line in sys.stdin: print('[' * 100000, flush=True)", DeadlineExceeded),
    ],
)
async def test_server_that_speaks_no_mcp_is_a_typed_error(program: str, error: type[ArchonError]) -> None:
    source = McpToolSource(
        "bad", command=sys.executable, args=["-c", program], connect_seconds=10 if error is Unavailable else 1
    )
    with pytest.raises(error, match="MCP server bad"):
        await asyncio.wait_for(source.connect(), 60)
    assert source.tools == []


HOSTILE = """
import json, sys
def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}
for line in sys.stdin:
    request = json.loads(line)
    method, cursor = request.get("method"), (request.get("params") or {}).get("cursor")
    if "id" not in request:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}}
    elif method == "tools/list":
        result = PAGE(int(cursor or 0))
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def slow_servers() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if "import time; time.sleep(600)" in each.cmdline()]


async def test_source_that_is_closed_while_it_connects_says_so() -> None:
    source = McpToolSource("slow", command=sys.executable, args=["-c", "import time; time.sleep(600)"])
    connecting = asyncio.create_task(source.connect())
    await until(lambda: slow_servers() != [], 30)
    await source.close()
    assert slow_servers() == []
    with pytest.raises(ArchonError, match="MCP server slow"):
        await asyncio.wait_for(connecting, 60)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"command": "/no/such/program"}, "there is no '/no/such/program'"),
        ({"command": "/etc/passwd"}, "'/etc/passwd' is not executable"),
        ({"command": sys.executable, "cwd": "/no/such/folder"}, "there is no folder '/no/such/folder'"),
    ],
)
async def test_a_command_that_cannot_be_started_is_not_tried_again(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(FailedPrecondition, match=f"^MCP server none cannot be started: {problem}$") as caught:
        await McpToolSource("none", **fields).connect()
    assert caught.value.retry is RetryAdvice.NEVER


@pytest.mark.parametrize(
    ("ending", "error", "told"),
    [
        ("sys.exit(3)", Unavailable, "ended with exit code 3: set TOKEN"),
        ("os.kill(os.getpid(), 11)", Unavailable, "ended by SIGSEGV: set TOKEN"),
        ("sys.exit(127)", FailedPrecondition, "ended with exit code 127: set TOKEN"),
    ],
)
async def test_a_server_that_ends_shows_its_last_words(ending: str, error: type[ArchonError], told: str) -> None:
    program = f"import os, sys; sys.stdin.readline(); print('set TOKEN', file=sys.stderr, flush=True); {ending}"
    with pytest.raises(error, match=f"^MCP server bad {told}$"):
        await McpToolSource("bad", command=sys.executable, args=["-c", program]).connect()


async def test_a_call_that_a_server_did_not_survive_tells_why() -> None:
    ending = "    elif method == 'tools/call':\n        sys.exit('MemoryError: ' + os.environ['PASS'])\n    else:\n"
    program = HOSTILE.replace("PAGE", '(lambda n: {"tools": [tool("fatal")]})').replace("    else:\n", ending)
    fields: dict[str, Any] = {"env": {"PASS": Secret("secret-of-the-server")}, "random": lambda: 0.0}
    async with McpToolSource("bad", command=sys.executable, args=["-c", f"import os\n{program}"], **fields) as source:
        result = await engine_of(source).execute_tool_call("bad.fatal", {})
    assert result.error_message == "MCP server bad ended with exit code 1: MemoryError: ***"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, FailedPrecondition),
        (401, Unauthenticated),
        (403, PermissionDenied),
        (404, FailedPrecondition),
        (405, FailedPrecondition),
        (429, ResourceExhausted),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_an_http_error_is_told_in_the_words_of_the_server(status: int, error: type[ArchonError]) -> None:
    page = Page('{"detail": "key k-123 has no access"}', status, "application/json", {"retry-after": "7"})
    async with WebServer({"/mcp": page}) as server:
        source = McpToolSource("shop", url=f"{server.url}/mcp", headers={"authorization": Secret("k-123")})
        with pytest.raises(error, match=rf"^MCP server shop answers {status} [^:]+: .*\*\*\* has no access") as caught:
            await source.connect()
    is_permanent = error in (FailedPrecondition, Unauthenticated, PermissionDenied)
    assert (caught.value.retry is RetryAdvice.NEVER) is is_permanent
    assert caught.value.retry_delay == (None if is_permanent else 7.0)


async def test_an_address_that_cannot_be_reached_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Unavailable, match=f"^MCP server shop at http://127.0.0.1:{port} is not reachable: "):
        await McpToolSource("shop", url=f"http://me:secret@127.0.0.1:{port}/mcp?key=secret").connect()


def hostile(page: str) -> McpToolSource:
    return McpToolSource("hostile", command=sys.executable, args=["-c", HOSTILE.replace("PAGE", f"(lambda n: {page})")])


@pytest.mark.search
async def test_a_million_tools_and_endless_pages_are_bounded() -> None:
    async with hostile('{"tools": [tool(f"t{n}_{i}") for i in range(1000)], "nextCursor": str(n + 1)}') as source:
        assert len(source.tools) == MAX_TOOLS
    async with hostile('{"tools": [tool(f"t{n}")], "nextCursor": str(n + 1)}') as source:
        assert len(source.tools) == 20
    with pytest.raises(Unavailable):
        await hostile('{"tools": [tool(f"tool_number_{i}") for i in range(1000000)]}').connect()


async def test_change_is_noticed_in_the_older_protocol() -> None:
    page = '{"tools": [tool("second" if CALLED else "first")]}'
    change = """    elif method == "tools/call":
        CALLED.append(method)
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
        result = {"content": []}
    else:
"""
    program = "CALLED = []\n" + HOSTILE.replace("PAGE", f"(lambda n: {page})").replace("    else:\n", change)
    async with McpToolSource("old", command=sys.executable, args=["-c", program], sleep=no_pause) as source:
        (first,) = source.tools
        assert (await first.execute(arguments={})).ok
        await until(lambda: first not in source.tools, 30)
        assert (first.name, [tool.name for tool in source.tools]) == ("first", ["second"])


async def test_descriptions_schemas_and_names_are_bounded() -> None:
    tools = [
        'tool("long", description="x" * 1000000)',
        'tool("big", inputSchema={"type": "object", "description": "x" * 100000})',
        'tool("remote", inputSchema={"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1/s"}}})',
        'tool("wrong", inputSchema={"type": "object", "properties": {"a": {"type": "nothing"}}})',
        'tool("../name\\n")',
        'tool("x" * 500)',
        'tool("long")',
    ]
    async with hostile(f'{{"tools": [{", ".join(tools)}]}}') as source:
        (tool,) = source.tools
        assert (tool.name, len(tool.description)) == ("long", MAX_DESCRIPTION)


async def test_pattern_of_a_server_does_not_hold_the_agent() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["a"]}
    async with hostile(f'{{"tools": [tool("slow", inputSchema={json.dumps(schema)})]}}') as source:
        (tool,) = source.tools
        assert tool.validate_args({"a": "a" * 60 + "b"}) is None
        assert "required" in str(tool.validate_args({}))


async def test_answer_over_http_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_transport, "MAX_MESSAGE_BYTES", 100_000)
    page = Page(b"x" * 65_536, content_type="application/json", repeat=10_000)
    async with WebServer({"/mcp": page}) as server:
        with unclosed_generators() as left, pytest.raises(ArchonError):
            await McpToolSource("big", url=f"{server.url}/mcp", connect_seconds=5).connect()
        assert server.sent < 100 * 65_536
        assert left == []


async def test_what_a_server_says_of_its_environment_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="archon_mesh")
    program = (
        "import os, sys; token = os.environ['TOKEN']\n"
        "print('bad', token, file=sys.stderr, flush=True); print('no message', token, flush=True)\n"
        "sys.stdin.readline(); sys.exit(3)"
    )
    source = McpToolSource("odd", command=sys.executable, args=["-c", program], env={"TOKEN": "token-123456"})
    with pytest.raises(ArchonError) as raised:
        await source.connect()
    assert "bad ***" in caplog.text
    assert "no message ***" in caplog.text
    assert "token-123456" not in f"{raised.value} {caplog.text}"


async def test_headers_are_sent_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="archon_mesh")
    async with WebServer({"/mcp": Page("token-123456 is wrong", status=401, content_type="text/plain")}) as server:
        source = McpToolSource(
            "web", url=f"{server.url}/mcp", headers={"Authorization": "token-123456"}, connect_seconds=5
        )
        with pytest.raises(ArchonError) as raised:
            await source.connect()
    assert server.requests
    assert "token-123456" not in f"{raised.value} {source!r} {vars(source)} {caplog.text}"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"command": "a", "url": "http://a"},
        {"url": "ftp://a"},
        {"command": "a", "headers": {"a": "b"}},
        {"url": "http://a", "args": ["b"]},
    ],
)
def test_declaration_that_contradicts_itself_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        McpToolSource("a", **fields)
    with pytest.raises(InvalidArgument):
        McpToolSource("not a name", command="x")


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_package, "find_spec", lambda name: None)
    with pytest.raises(FailedPrecondition, match=r"pip install 'archon-mesh\[mcp\]'"):
        McpToolSource("a", command="x")


SCHEMAS = {
    "pair": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"at": {"type": "array", "items": [{"type": "number"}, {"type": "string"}]}},
    },
    "letters": {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^\p{L}+$"}}},
    "grep": {
        "type": "object",
        "properties": {"pattern": {"type": "string"}},
        "required": ["pattern"],
        "additionalProperties": False,
    },
    "bare": {"type": "object"},
}


async def test_schemas_of_the_world_are_taken() -> None:
    listed = ", ".join(f"tool({name!r}, inputSchema={schema!r})" for name, schema in SCHEMAS.items())
    async with hostile(f'{{"tools": [{listed}]}}') as source:
        tools = {tool.name: tool for tool in source.tools}
    assert list(tools) == list(SCHEMAS)
    assert tools["pair"].validate_args({"at": [1, "x"]}) is None
    assert "at.1" in str(tools["pair"].validate_args({"at": [1, 2]})), "a tuple of draft 7"
    assert tools["letters"].validate_args({"a": "abc"}) is None, "a pattern of ECMA-262 is the server's to check"
    assert tools["grep"].validate_args({"pattern": "x"}) is None, "a parameter may have this name"
    assert tools["bare"].parameters_schema == {"type": "object", "properties": {}}, "as providers of models want it"


async def test_an_error_of_a_server_that_lives_is_no_lost_connection() -> None:
    program = HOSTILE.replace("PAGE", '(lambda n: {"tools": [tool("limited")]})').replace("-32601", "-32000")
    async with McpToolSource("live", command=sys.executable, args=["-c", program]) as source:
        for _ in range(2):
            result = await engine_of(source).execute_tool_call("live.limited", {})
            assert result.error_message == "MCP server live: no"
        assert source.is_connected


async def test_a_tool_that_breaks_the_protocol_costs_that_tool() -> None:
    listed = [
        {"name": "fine", "inputSchema": {"type": "object"}},
        {"name": "bare"},
        {"name": "null", "inputSchema": None, "description": None},
        {"name": "odd", "inputSchema": {}, "annotations": "none", "icons": 7, "description": "kept"},
        {"name": 7, "inputSchema": {"type": "object"}},
        "no tool",
    ]
    async with hostile(repr({"tools": listed})) as source:
        assert {tool.name: tool.description for tool in source.tools} == {
            "fine": "",
            "bare": "",
            "null": "",
            "odd": "kept",
        }


async def test_content_of_an_unknown_kind_is_kept_as_text() -> None:
    content = [
        {"type": "hologram", "data": "x"},
        {"type": "text", "text": None},
        {"type": "text", "text": "fine"},
        "bare",
    ]
    answer = f'"result": {{"content": {json.dumps(content)}}}'.replace("null", "None")
    program = HOSTILE.replace("PAGE", '(lambda n: {"tools": [tool("any")]})')
    program = program.replace('"error": {"code": -32601, "message": "no"}', answer)
    async with McpToolSource("odd", command=sys.executable, args=["-c", program]) as source:
        result = await engine_of(source).execute_tool_call("odd.any", {})
    assert result.text == '{"type": "hologram", "data": "x"}\n\nfine\nbare'


@pytest.mark.parametrize("before", ["\\ufeff", "Starting the server ... "], ids=["byte order mark", "greeting"])
async def test_what_stands_before_a_message_is_passed_over(before: str) -> None:
    greeting = f'sys.stdout.reconfigure(encoding="utf-8"); print("{before}", end="", flush=True)'
    program = HOSTILE.replace("PAGE", '(lambda n: {"tools": [tool("any")]})')
    program = program.replace("import json, sys\n", f"import json, sys\n{greeting}\n")
    async with McpToolSource("loud", command=sys.executable, args=["-c", program]) as source:
        assert [tool.name for tool in source.tools] == ["any"]


async def test_spaces_within_a_message_are_no_greeting() -> None:
    program = HOSTILE.replace("PAGE", '(lambda n: {"tools": [tool("any")]})').replace(
        "print(json.dumps(", "print(' {' + json.dumps("
    )
    program = program.replace("}), flush", "})[1:], flush")
    async with McpToolSource("spaced", command=sys.executable, args=["-c", program.replace("' {'", "' { '")]) as source:
        assert [tool.name for tool in source.tools] == ["any"]


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://mcp.example.test/mcp", "http://proxy:1"),
        ("http://inside.test/mcp", None),
        ("http://127.0.0.1:8000/mcp", None),
        ("http://[::1]:8000/mcp", None),
    ],
)
def test_a_proxy_is_taken_from_the_environment(url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    monkeypatch.setenv("no_proxy", "inside.test")
    assert mcp_transport._proxy_of(url) == proxy


RESULTS = {
    "bricks-mcp#45: an output schema and no structured content": (
        {"content": [{"type": "text", "text": "plain"}]},
        "plain",
        None,
    ),
    "obsidian-mcp-server#108: structured content that breaks its schema": (
        {"content": [{"type": "text", "text": "plain"}], "structuredContent": {"count": "three"}},
        '{"count": "three"}',
        None,
    ),
    "openai-agents-python#4224: an error with structured content": (
        {"isError": True, "content": [{"type": "text", "text": "no such file"}], "structuredContent": {"code": 2}},
        None,
        'no such file\n\n{"code": 2}',
    ),
    "hermes-agent#101330: an error whose details are structured alone": (
        {"isError": True, "content": [], "structuredContent": {"trace": "line 7"}},
        None,
        '{"trace": "line 7"}',
    ),
}


@pytest.mark.parametrize(("answer", "text", "error"), RESULTS.values(), ids=RESULTS)
async def test_results_of_servers_that_bend_the_protocol_reach_the_model(
    answer: dict[str, object], text: str | None, error: str | None
) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    program = HOSTILE.replace("PAGE", f'(lambda n: {{"tools": [tool("count", outputSchema={schema!r})]}})')
    program = program.replace('"error": {"code": -32601, "message": "no"}', f'"result": {answer!r}')
    async with McpToolSource("odd", command=sys.executable, args=["-c", program]) as source:
        result = await engine_of(source).execute_tool_call("odd.count", {})
    assert (result.error_message or None) == error
    if text is not None:
        assert result.text == text
