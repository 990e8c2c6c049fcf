"""Tools: schemas, invalid arguments, timeouts, and errors as results."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any, Literal

import pytest

from archon.errors import InvalidArgument
from archon_mesh.tools import Tool, ToolExecutionEngine, ToolRegistry, ToolResult, tool
from tests.fixtures.ports import free_ports
from tests.fixtures.waiting import until


@tool
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@tool(name="wait_for", timeout=0.05)
async def wait(seconds: float, how: Literal["well", "badly"] = "well") -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return how


class Upper(Tool):
    name = "upper"
    description = "In capitals."
    parameters_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    async def execute(self, **kwargs: Any) -> Any:
        return ToolResult.success(kwargs["text"].upper(), {"seen": True})


def engine(*tools: Any, **more: Any) -> ToolExecutionEngine:
    return ToolExecutionEngine(ToolRegistry(tools), **more)


def test_signature_is_the_schema_and_docstring_the_description() -> None:
    assert (add.name, add.description) == ("add", "Adds two numbers.")
    assert add.parameters_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert wait.parameters_schema["properties"]["how"]["enum"] == ["well", "badly"]
    assert add(2, 3) == 5, "it is still the function"


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("add", {"a": 2}, 3),
        ("add", '{"a": 2, "b": "3"}', 5),
        ("wait_for", {"seconds": 0.0, "how": "badly"}, "badly"),
        ("upper", {"text": "ab"}, "AB"),
    ],
)
async def test_call_returns_the_tools_value(name: str, arguments: Any, content: Any) -> None:
    result = await engine(add, wait, Upper()).execute_tool_call(name, arguments)
    assert (result.ok, result.content) == (True, content)


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("add", {"b": 2}, "a: Field required"),
        ("add", {"a": 1, "c": 2}, "c: Extra inputs"),
        ("add", {"a": "x"}, "a: Input should be a valid integer"),
        ("add", "{", "invalid arguments: not JSON"),
        ("add", "[1]", "expected a JSON object"),
        ("add", "[" * 100_000, "invalid arguments: not JSON"),
        ("upper", {}, "'text' is a required property"),
        ("upper", {"text": 1}, "text: 1 is not of type 'string'"),
        ("nothing", {}, "no tool 'nothing'; registered: add, upper"),
    ],
)
async def test_invalid_call_is_an_error_result(name: str, arguments: Any, why: str) -> None:
    result = await engine(add, Upper()).execute_tool_call(name, arguments)
    assert result.status == "error"
    assert why in result.error_message


async def test_slow_tool_is_a_timeout_result() -> None:
    result = await engine(wait).execute_tool_call("wait_for", {"seconds": 5})
    assert (result.status, result.error_message) == ("timeout", "no answer within 0.05 s")
    slow = await engine(wait).execute_tool_call("wait_for", {"seconds": 0.06}, timeout_seconds=1)
    assert slow.ok


async def test_timeout_error_raised_by_a_tool_is_an_error_result() -> None:
    @tool
    async def impatient() -> None:
        """Raises."""
        raise TimeoutError("its own")

    result = await engine(impatient).execute_tool_call("impatient", {})
    assert (result.status, result.error_message) == ("error", "TimeoutError: its own")


async def test_plain_function_runs_on_a_thread() -> None:
    all_run = threading.Barrier(50, timeout=60)

    @tool
    def block() -> str:
        """Waits until fifty calls run."""
        all_run.wait()
        return threading.current_thread().name

    run = engine(block)
    results = await asyncio.gather(*(run.execute_tool_call("block", {}) for _ in range(50)))
    assert {result.content for result in results} == {"tool-block"}


async def test_threads_that_do_not_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_mesh.tools.function.MAX_THREADS", 2)
    release, entered = threading.Event(), threading.Semaphore(0)

    @tool
    def hang() -> str:
        """Waits."""
        entered.release()
        release.wait(30)
        return "ended"

    run = engine(hang)
    for _ in range(2):
        call = asyncio.create_task(run.execute_tool_call("hang"))
        await asyncio.to_thread(entered.acquire, timeout=30)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    refused = await run.execute_tool_call("hang")
    assert (refused.error_message, refused.metadata["kind"]) == (
        "tool hang has 2 threads that have not ended",
        "tool.resource_exhaustion",
    )
    release.set()
    await until(lambda: hang._threads == 0)
    assert (await run.execute_tool_call("hang")).content == "ended"


async def test_arguments_of_a_hook_need_not_be_json() -> None:
    seen: list[Any] = []

    @tool(idempotent=True, cache_seconds=60)
    async def keep(value: Any) -> int:
        """Keeps a value."""
        seen.append(value)
        return len(seen)

    run, value = engine(keep), object()
    for expected in (1, 2):
        assert (await run.execute_tool_call("keep", {"value": value})).content == expected, "not cached"
    assert seen == [value, value]


async def test_cancelled_call_is_cancelled_immediately() -> None:
    ended = asyncio.Event()

    @tool
    async def long() -> None:
        """Waits."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = asyncio.create_task(engine(long).execute_tool_call("long", {}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


def test_function_with_an_invalid_signature_is_rejected() -> None:
    with pytest.raises(InvalidArgument, match="cannot be passed by name"):
        tool(name="many")(lambda *many: None)
    with pytest.raises(InvalidArgument, match="invalid tool name"):
        tool(name="not a name")(lambda: None)


async def test_agent_state_is_passed_and_not_in_the_schema() -> None:
    @tool
    def whose(agent_state: Any, loud: bool = False) -> Any:
        """Returns the name of the calling agent."""
        return agent_state

    assert list(whose.parameters_schema["properties"]) == ["loud"]
    assert (await engine(whose).execute_tool_call("whose", {}, agent_state="mine")).content == "mine"
    refused = await engine(whose).execute_tool_call("whose", {"agent_state": "forged"}, agent_state="mine")
    assert refused.status == "error"


async def test_system_exit_in_a_tool_is_an_error_result() -> None:
    @tool
    def leave() -> None:
        """Exits."""
        sys.exit(3)

    @tool
    async def leave_too() -> None:
        """Exits."""
        raise SystemExit(4)

    run = engine(leave, leave_too)
    for name, code in (("leave", 3), ("leave_too", 4)):
        result = await run.execute_tool_call(name, {})
        assert (result.status, result.error_message) == ("error", f"SystemExit: {code}")


async def test_result_says_which_tool_answered_and_what_it_took() -> None:
    good = await engine(add).execute_tool_call("add", {"a": 1})
    assert (good.metadata["tool_name"], good.metadata["tool_version"], good.metadata["attempts"]) == ("add", "1", 1)
    assert good.metadata["execution_time_ms"] >= 0
    assert good.metadata["validation_time_ms"] >= 0
    assert "code" not in good.metadata


@pytest.mark.parametrize(
    ("name", "arguments", "code", "reason", "kind", "attempts"),
    [
        ("wait_for", {"seconds": 5}, "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "tool.timeout", 1),
        ("add", {}, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "tool.invalid_parameters", 0),
        ("ad", {}, "NOT_FOUND", "NOT_FOUND", "model.hallucination", 0),
        ("crash", {}, "UNKNOWN", "UNKNOWN", "tool.crash", 1),
        ("refuse", {}, "UNKNOWN", "UNKNOWN", "tool.crash", 1),
    ],
)
async def test_failed_result_has_plain_code_reason_and_kind(
    name: str, arguments: dict[str, Any], code: str, reason: str, kind: str, attempts: int
) -> None:
    @tool
    def crash() -> None:
        """Raises."""
        raise ValueError("boom")

    @tool
    def refuse() -> ToolResult:
        """Returns an error."""
        return ToolResult.error("not today")

    result = await engine(add, wait, crash, refuse).execute_tool_call(name, arguments)
    assert not result.ok
    assert [result.metadata[key] for key in ("code", "reason", "kind", "attempts")] == [code, reason, kind, attempts]
    assert json.loads(json.dumps(result.metadata)) == result.metadata, "plain JSON data"


async def test_outcome_has_the_exception_and_the_result_has_not() -> None:
    error = ValueError("boom")

    @tool
    async def crash() -> None:
        """Raises."""
        raise error

    outcome = await engine(crash).run("crash")
    assert outcome.error is error
    assert outcome.result.content == outcome.result.error_message == "ValueError: boom"


async def test_similar_name_is_proposed_for_an_unknown_one() -> None:
    result = await engine(add, Upper()).execute_tool_call("uper", {})
    assert result.error_message == "no tool 'uper'; did you mean upper? registered: add, upper"


async def test_arguments_are_validated_once_per_call() -> None:
    class Counting(Upper):
        validated = 0

        def validate_args(self, args: Any) -> str | None:
            self.validated += 1
            return "say please" if args["text"] != "please" else None

    counting = Counting()
    refused = await engine(counting).execute_tool_call("upper", {"text": "now"})
    assert (refused.error_message, counting.validated) == ("say please", 1)
    assert (await engine(counting).execute_tool_call("upper", {"text": "please"})).content == "PLEASE"
    assert counting.validated == 2


def test_validation_returns_a_message_or_none() -> None:
    assert add.validate_args({"a": "3"}) is None
    assert add.validate_args({}) == "invalid arguments for tool add: a: Field required"
    assert add.convert_args({"a": "3"}) == {"a": 3}
    assert Upper().validate_args({"text": "a"}) is None


async def test_a_schema_of_another_document_is_not_fetched() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", *free_ports(1))
    port = server.sockets[0].getsockname()[1]

    class Remote(Tool):
        name = "remote"
        description = "Has a schema elsewhere."
        parameters_schema = {"properties": {"a": {"$ref": f"http://127.0.0.1:{port}/schema.json"}}}

        async def execute(self, **kwargs: Any) -> str:
            return "done"

    async with server:
        result = await asyncio.to_thread(
            asyncio.run, ToolExecutionEngine(ToolRegistry([Remote()])).execute_tool_call("remote", {"a": 1})
        )
        await asyncio.sleep(0)
    assert not result.ok
    assert asked == []
