"""Questions of MCP servers to the person behind the agent, in both ways of the protocol."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import ElicitRequestFormParams, ElicitResult, ErrorData

from archon.errors import InvalidArgument, QuestionTimedOut
from archon_mesh.core.people import QuestionKind
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry, ToolResult, tool
from archon_mesh.tools.mcp import FormRequest, McpToolSource, ask_client
from archon_mesh.tools.mcp import questions as questions_module
from archon_mesh.tools.mcp.questions import ServerQuestions
from archon_mesh.tools.mcp.serving.server import create_server, serve_http
from archon_mesh.tools.people import PersonAnswer, PersonQuestion, answered_by
from archon_mesh.tools.people.ask import QuestionAsked, bind_desk
from tests.fixtures.waiting import until

PATIENCE = 30.0

OLDER = """
import json, sys

SCHEMA = {"type": "object", "properties": {"message": {}, "schema": {}, "times": {}}}

def receive():
    return json.loads(sys.stdin.readline() or sys.exit())

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def answer(method, params):
    if method == "initialize":
        server = {"name": "older", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [{"name": "ask", "inputSchema": SCHEMA}]}
    if method != "tools/call":
        return None
    given = params["arguments"]
    answers = []
    for number in range(given.get("times", 1)):
        asked = {"message": given["message"], "requestedSchema": given["schema"]}
        send(id=f"q{number}", method="elicitation/create", params=asked)
        reply = receive()
        while reply.get("id") != f"q{number}":
            reply = receive()
        answers.append(reply.get("result") or reply["error"])
    return {"content": [{"type": "text", "text": json.dumps(answers[-1])}]}

while True:
    request = receive()
    if "id" in request:
        result = answer(request["method"], request.get("params") or {})
        send(id=request["id"], **({"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}))
"""
"""A server of an older version, which sends its questions as requests."""


@tool(name="ask")
async def ask_as_it_is(message: str, schema: dict[str, Any], times: int = 1) -> str:
    """Asks the person behind the client."""
    answer = {}
    for number in range(times):
        form = FormRequest(message, {"type": "object", "properties": {}})
        object.__setattr__(form, "schema", schema)  # of any kind: the client must check it
        given = (await ask_client({f"q{number}": form}))[f"q{number}"]
        answer = {"action": given.action, **({"content": dict(given.content)} if given.content else {})}
    return json.dumps(answer)


Serving = Callable[..., AbstractAsyncContextManager[McpToolSource]]


@pytest.fixture(params=["older", "newest"])
def serving(request: pytest.FixtureRequest, tmp_path: Path) -> Serving:
    """Starts a server that asks, and connects it."""

    @asynccontextmanager
    async def older(**fields: Any) -> AsyncIterator[McpToolSource]:
        script = tmp_path / "older.py"
        script.write_text(OLDER)
        async with McpToolSource("asker", command=sys.executable, args=[str(script)], **fields) as source:
            yield source

    return older if request.param == "older" else newest


@asynccontextmanager
async def newest(**fields: Any) -> AsyncIterator[McpToolSource]:
    """A server of the newest version, in this process."""
    urls: list[str] = []
    stopping = asyncio.Event()
    server = create_server("asker", ToolExecutionEngine(ToolRegistry([ask_as_it_is])))
    task = asyncio.create_task(serve_http(server, 0, urls.append, stopping))
    try:
        await until(lambda: urls != [] or task.done(), PATIENCE)
        async with McpToolSource("asker", url=urls[0], **fields) as source:
            yield source
    finally:
        stopping.set()
        await task


NAME: Mapping[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def ask(source: McpToolSource, schema: Mapping[str, Any] = NAME, **more: Any) -> ToolResult:
    registry = ToolRegistry()
    source.register(registry)
    engine = ToolExecutionEngine(registry)
    arguments = {"message": "What is your name?", "schema": dict(schema), **more}
    return await engine.execute_tool_call("asker.ask", arguments)


@pytest.mark.parametrize(
    ("schema", "said", "content"),
    [
        (NAME, "Ann", {"name": "Ann"}),
        (NAME, '{"name": "Ann"}', {"name": "Ann"}),
        (NAME, "7", {"name": "7"}),
        ({"type": "object", "properties": {"age": {"type": "integer"}}}, "7", {"age": 7}),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "boolean"}}},
            '{"b": true}',
            {"a": 1, "b": True},
        ),
    ],
)
async def test_server_gets_the_answer_of_the_person(
    serving: Serving, schema: Mapping[str, Any], said: str, content: object
) -> None:
    asked: list[PersonQuestion] = []

    async def answer(question: PersonQuestion) -> str:
        asked.append(question)
        return said

    async with serving(may_ask=True) as source:
        with answered_by(answer):
            result = await ask(source, schema)
    assert json.loads(result.text) == {"action": "accept", "content": content}
    (question,) = asked
    assert question.text == "The MCP server asker asks: What is your name?"
    assert question.schema == schema


@pytest.mark.parametrize(("said", "action"), [("yes", "accept"), ("reject", "decline"), ("perhaps", "cancel")])
async def test_form_without_fields_is_confirmed(serving: Serving, said: str, action: str) -> None:
    async def answer(question: PersonQuestion) -> str:
        assert (question.kind, question.schema) == (QuestionKind.APPROVAL, None)
        return said

    async with serving(may_ask=True) as source:
        with answered_by(answer):
            result = await ask(source, {"type": "object", "properties": {}})
    assert json.loads(result.text) == {"action": action}


@pytest.mark.parametrize("said", ['{"name": 1}', "{}", '["Ann"]'])
async def test_answer_that_does_not_match_is_cancelled(serving: Serving, said: str) -> None:
    async def answer(question: PersonQuestion) -> str:
        return said

    schema = {**NAME, "properties": {**NAME["properties"], "other": {"type": "string"}}}
    async with serving(may_ask=True) as source:
        with answered_by(answer):
            assert json.loads((await ask(source, schema)).text) == {"action": "cancel"}


async def test_server_may_ask_only_if_the_author_lets_it(serving: Serving) -> None:
    async def answer(question: PersonQuestion) -> str:
        raise AssertionError("not asked")

    async with serving() as source:
        with answered_by(answer):
            result = await ask(source)
    assert "Elicitation not supported" in result.text or "does not declare the capability" in result.text


async def test_server_is_refused_if_no_person_can_be_asked(serving: Serving) -> None:
    async with serving(may_ask=True) as source:
        assert "no person can be asked here" in (await ask(source)).text


class SuspendingDesk:
    """Ends the attempt with each question, as in a task of the mesh."""

    def __init__(self) -> None:
        self.calls: list[int | None] = []

    async def ask(self, question: PersonQuestion, call: int | None) -> PersonAnswer:
        self.calls.append(call)
        raise QuestionAsked(question, "t1")

    def begin_calls(self, *, resumed: bool) -> Mapping[int, ToolResult]:
        return {}


async def test_question_ends_an_attempt_in_the_mesh(serving: Serving) -> None:
    async with serving(may_ask=True) as source:
        with bind_desk(SuspendingDesk()), pytest.raises(QuestionAsked, match="What is your name"):
            await ask(source)


async def test_question_without_an_answer_in_time_fails_the_call(serving: Serving) -> None:
    async def answer(question: PersonQuestion) -> str:
        raise QuestionTimedOut("no answer came")

    async with serving(may_ask=True) as source:
        with answered_by(answer):
            result = await ask(source)
    assert result.metadata["reason"] == "QUESTION_TIMED_OUT"


async def test_error_of_asking_is_not_one_of_the_server(serving: Serving) -> None:
    async def answer(question: PersonQuestion) -> str:
        raise ValueError("no desk")

    async with serving(may_ask=True) as source:
        with answered_by(answer):
            result = await ask(source)
        assert "ValueError: no desk" in result.text
        assert source.is_connected


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "only forms"),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}, "only forms"),
        (
            {"type": "object", "properties": {"a": {"type": "string", "$ref": "https://evil.example"}}},
            "refers to another document",
        ),
        ({"type": "object", "properties": {"a": {"type": "string", "title": "x" * 40_000}}}, "is larger than"),
    ],
)
async def test_schema_that_is_no_form_is_refused(serving: Serving, schema: Mapping[str, Any], why: str) -> None:
    async def answer(question: PersonQuestion) -> str:
        raise AssertionError("not asked")

    async with serving(may_ask=True) as source:
        with answered_by(answer):
            assert why in (await ask(source, schema)).text


async def test_questions_of_a_call_are_bounded(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions_module, "MAX_QUESTIONS", 2)
    count = 0

    async def answer(question: PersonQuestion) -> str:
        nonlocal count
        count += 1
        return "Ann"

    async with serving(may_ask=True) as source:
        with answered_by(answer):
            assert "more than 2 questions during a call" in (await ask(source, times=4)).text
            assert "accept" in (await ask(source, times=2)).text
    assert count == 4


async def test_long_question_of_a_server_is_cut(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions_module, "MAX_QUESTION", 7)

    async def answer(question: PersonQuestion) -> str:
        return question.text

    async with serving(may_ask=True) as source:
        with answered_by(answer):
            assert "asks: What is" in (await ask(source)).text
            assert "asks: What is your" not in (await ask(source)).text


async def test_question_ends_with_its_call(serving: Serving) -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(question: PersonQuestion) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async with asyncio.timeout(PATIENCE), serving(may_ask=True) as source:
        with answered_by(answer):
            call = asyncio.create_task(ask(source))
            await asked.wait()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await cancelled.wait()
        assert source.is_connected


async def test_question_that_may_be_of_two_calls_is_refused() -> None:
    questions = ServerQuestions("asker")
    params = ElicitRequestFormParams(message="What is your name?", requested_schema=dict(NAME))

    async def answer(question: PersonQuestion) -> str:
        return "Ann"

    async def asked_by_the_server() -> ElicitResult | ErrorData:
        answering = questions.answer(None, params)
        return await asyncio.create_task(answering, context=contextvars.Context())

    with answered_by(answer), questions.during_call():
        with questions.during_call():
            refused = await asked_by_the_server()
        accepted = await asked_by_the_server()
    assert isinstance(refused, ErrorData)
    assert refused.message == "it cannot be told which call asks"
    assert accepted == ElicitResult(action="accept", content={"name": "Ann"})


class Signing(httpx2.Auth):
    """Signs requests with a token."""

    def __init__(self) -> None:
        self.signed: list[str] = []

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = "Bearer token"
        self.signed.append(request.method)
        yield request


async def test_requests_to_a_server_are_signed() -> None:
    auth = Signing()
    async with newest(auth=auth) as source:
        assert [each.name for each in source.tools] == ["ask"]
    assert "POST" in auth.signed


def test_program_has_no_authorization() -> None:
    with pytest.raises(InvalidArgument, match="auth"):
        McpToolSource("asker", command="x", auth=Signing())
