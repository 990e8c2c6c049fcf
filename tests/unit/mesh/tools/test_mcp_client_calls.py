"""What tools, prompts and resources report to an MCP client and ask it, in both ways of the protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
    TextContent,
)
from pydantic import FileUrl

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.core.people import QuestionKind, QuestionTerms
from archon_mesh.tools import Tool, ToolExecutionEngine, ToolRegistry, ask_person, tool
from archon_mesh.tools.mcp import (
    ClientRequest,
    CompletionRequest,
    FormRequest,
    McpOffer,
    RootsRequest,
    ask_client,
    client_can,
    log_to_client,
    prompt,
    report_progress,
    resource,
)
from archon_mesh.tools.mcp.serving import client as client_module
from archon_mesh.tools.mcp.serving.server import create_server
from archon_mesh.tools.people import PersonQuestion
from archon_mesh.tools.people.ask import bind_resumable_call

NAME = FormRequest("What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}})
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Person:
    """Answers forms in turn, and keeps what was asked."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append((params.message, params.requested_schema))
        return self.answers.pop(0)


def accepted(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


def client_of(*tools: Tool, mode: Any = "auto", offer: McpOffer | None = None, **callbacks: Any) -> Client:
    engine = ToolExecutionEngine(ToolRegistry(tools))
    return Client(create_server("s", engine, offer=offer), mode=mode, **callbacks)


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@MODES
async def test_progress_reaches_a_client_that_asks_for_it(mode: str) -> None:
    @tool
    async def work() -> str:
        """Works."""
        await report_progress(1, 2, "half")
        await report_progress(2)
        return "done"

    reports: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async with client_of(work, mode=mode) as client:
        assert text(await client.call_tool("work")) == "done"
        assert reports == []
        await client.call_tool("work", progress_callback=note)
    assert reports == [(1, 2, "half"), (2, None, None)]


@pytest.mark.parametrize(
    ("level", "received"),
    [(None, []), ("debug", ["debug", "warning"]), ("warning", ["warning"]), ("error", [])],
)
async def test_client_gets_the_log_messages_that_it_asks_for(level: Any, received: list[str]) -> None:
    messages: list[LoggingMessageNotificationParams] = []

    async def note(params: LoggingMessageNotificationParams) -> None:
        messages.append(params)

    async with client_of(log_twice, log_level=level, logging_callback=note) as client:
        await client.call_tool("log_twice")
    assert [each.level for each in messages] == received
    assert all((each.data, each.logger) in [("a detail", None), ({"low": "ink"}, "printer")] for each in messages)


@tool
async def log_twice() -> str:
    """Logs to the client."""
    await log_to_client("debug", "a detail")
    await log_to_client("warning", {"low": "ink"}, "printer")
    return "logged"


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_client_of_an_older_version_sets_a_log_level() -> None:
    messages: list[str] = []

    async def note(params: LoggingMessageNotificationParams) -> None:
        messages.append(params.level)

    async with client_of(log_twice, mode="legacy", logging_callback=note) as client:
        await client.call_tool("log_twice")
        assert messages == ["warning"], "from info on"
        await client.set_logging_level("debug")
        await client.call_tool("log_twice")
        assert messages == ["warning", "debug", "warning"]
        await client.set_logging_level("critical")
        await client.call_tool("log_twice")
    assert messages == ["warning", "debug", "warning"]


@pytest.mark.parametrize(("level", "data"), [("loud", "text"), ("info", object()), ("info", "x" * 70_000)])
async def test_invalid_log_message_is_refused(level: Any, data: object) -> None:
    with pytest.raises(InvalidArgument):
        await log_to_client(level, data)


async def test_reports_outside_of_a_request_do_nothing() -> None:
    await report_progress(1)
    await log_to_client("info", "text")
    assert not client_can(FormRequest)
    with pytest.raises(FailedPrecondition, match="no MCP client"):
        await ask_client({"name": NAME})


@MODES
async def test_tool_asks_the_person_behind_the_client(mode: str) -> None:
    begun = 0

    @tool
    async def book(nights: int) -> str:
        """Books a room."""
        nonlocal begun
        begun += 1
        city = await ask_person("Where to?")
        schema = {"type": "object", "properties": {"stars": {"type": "integer"}}}
        stars = await ask_person(PersonQuestion("How many stars?", schema=schema))
        sure = await ask_person(PersonQuestion("Sure?", schema={"type": "boolean"}))
        return f"{city.text} for {nights}, {json.loads(stars.text)['stars']}, {sure.text}"

    person = Person(accepted(answer="Rome"), accepted(stars=4), accepted(answer=True))
    async with client_of(book, mode=mode, elicitation_callback=person) as client:
        assert text(await client.call_tool("book", {"nights": 2})) == "Rome for 2, 4, true"
    assert [message for message, _ in person.asked] == ["Where to?", "How many stars?", "Sure?"]
    assert [sorted(schema["properties"]) for _, schema in person.asked] == [["answer"], ["stars"], ["answer"]]
    assert begun == (1 if mode == "legacy" else 4), "each question ends the request, and the tool is called again"


@MODES
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (accepted(decision="approve", text="fine"), "approve fine"),
        (accepted(decision="modify", text="only 2"), "modify only 2"),
        (accepted(decision="reject"), "reject "),
        (ElicitResult(action="decline"), "reject "),
        (ElicitResult(action="cancel"), "the person did not answer: cancel"),
    ],
)
async def test_person_behind_the_client_decides(mode: str, answer: ElicitResult, expected: str) -> None:
    @tool
    async def delete() -> str:
        """Deletes."""
        decision = await ask_person(PersonQuestion("Delete 3 files?", QuestionKind.APPROVAL))
        return f"{decision.decision.name.lower()} {decision.text}"

    async with client_of(delete, mode=mode, elicitation_callback=Person(answer)) as client:
        assert text(await client.call_tool("delete")).endswith(expected)


@MODES
async def test_answer_to_a_deep_schema_is_json(mode: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}

    @tool
    async def ask() -> str:
        """Asks for data."""
        return (await ask_person(PersonQuestion("Which?", schema=schema))).text

    person = Person(accepted(answer='{"a": [1]}'), accepted(answer='{"a": ["x"]}'), accepted(answer="{"))
    async with client_of(ask, mode=mode, elicitation_callback=person) as client:
        assert text(await client.call_tool("ask")) == '{"a": [1]}'
        assert "the answer does not match the schema" in text(await client.call_tool("ask"))
        assert "the answer is not JSON" in text(await client.call_tool("ask"))


@MODES
async def test_question_for_named_approvers_is_refused(mode: str) -> None:
    @tool
    async def pay() -> str:
        """Pays."""
        await ask_person(PersonQuestion("Pay?", QuestionKind.APPROVAL, terms=QuestionTerms(approvers=("ann",))))
        return "paid"

    person = Person(accepted(decision="approve"))
    async with client_of(pay, mode=mode, elicitation_callback=person) as client:
        assert "has no identity" in text(await client.call_tool("pay"))
    assert person.asked == []


async def test_question_in_a_composite_tool_does_not_repeat_it() -> None:
    steps: list[str] = []

    @tool
    async def both() -> str:
        """Acts, then asks within another call."""
        steps.append("acted")
        with bind_resumable_call(None):
            return (await ask_person("Go on?")).text

    person = Person(accepted(answer="yes"))
    async with client_of(both, elicitation_callback=person) as client:
        assert "from within a composite tool" in text(await client.call_tool("both"))
    async with client_of(both, mode="legacy", elicitation_callback=person) as client:
        assert text(await client.call_tool("both")) == "yes"
    assert steps == ["acted", "acted"]


@MODES
async def test_tool_asks_for_everything_at_once(mode: str) -> None:
    @tool
    async def everything() -> str:
        """Asks a person, a model and a client."""
        requests: dict[str, ClientRequest] = {
            "user": NAME,
            "poem": CompletionRequest("Rhyme", 20, "Be short."),
            "roots": RootsRequest(),
        }
        assert all(client_can(type(request)) for request in requests.values())
        answers = await ask_client(requests)
        return f"{answers['user'].content['name']} {answers['poem']} {answers['roots'][0].uri}"

    async def complete(context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
        assert (params.max_tokens, params.system_prompt) == (20, "Be short.")
        return CreateMessageResult(role="assistant", content=TextContent(text="a line"), model="m")

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///home"))])

    person = Person(accepted(name="Ann"))
    callbacks: dict[str, Any] = {"elicitation_callback": person, "sampling_callback": complete}
    async with client_of(everything, mode=mode, list_roots_callback=roots, **callbacks) as client:
        assert text(await client.call_tool("everything")) == "Ann a line file:///home"


@MODES
async def test_prompt_and_resource_ask_the_person(mode: str) -> None:
    @prompt
    async def greet() -> str:
        """Greets."""
        return f"Greet {(await ask_person('Whom?')).text}."

    @resource("diary://today")
    async def diary() -> str:
        """Today."""
        return f"Today: {(await ask_person('How was it?')).text}"

    person = Person(accepted(answer="Bob"), accepted(answer="good"))
    offer = McpOffer(prompts=[greet], resources=[diary])
    async with client_of(mode=mode, offer=offer, elicitation_callback=person) as client:
        (message,) = (await client.get_prompt("greet")).messages
        assert message.content == TextContent(text="Greet Bob.")
        (contents,) = (await client.read_resource("diary://today")).contents
        assert getattr(contents, "text", "") == "Today: good"


@tool
async def complete_text() -> str:
    """Asks a model."""
    return str((await ask_client({"text": CompletionRequest("Say hello", 10)}))["text"])


async def test_missing_capability_is_an_error_of_the_protocol() -> None:
    async with client_of(complete_text) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("complete_text")
        assert (raised.value.code, raised.value.data) == (-32021, {"requiredCapabilities": {"sampling": {}}})
    async with client_of(complete_text, mode="legacy") as client:
        result = await client.call_tool("complete_text")
        assert result.is_error
        assert "does not declare the capability 'sampling'" in text(result)


async def test_client_that_refuses_is_an_error_of_the_tool() -> None:
    async def refuse(context: ClientRequestContext, params: CreateMessageRequestParams) -> ErrorData:
        return ErrorData(code=-1, message="no model")

    async with client_of(complete_text, mode="legacy", sampling_callback=refuse) as client:
        assert "the MCP client does not answer: no model" in text(await client.call_tool("complete_text"))


AGE = FormRequest("How old?", {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})


@tool
async def ask_age() -> str:
    """Asks for the age."""
    return str((await ask_client({"age": AGE}))["age"].content["age"])


async def test_invalid_answer_is_asked_for_again() -> None:
    person = Person(accepted(age="old"), accepted(), accepted(age=7))
    async with client_of(ask_age, elicitation_callback=person) as client:
        assert text(await client.call_tool("ask_age")) == "7"
    async with client_of(ask_age, mode="legacy", elicitation_callback=Person(accepted(age="old"))) as client:
        assert "does not match the form" in text(await client.call_tool("ask_age"))


async def test_state_of_a_request_is_sealed_and_bound_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    async def ask_two(times: int) -> str:
        """Asks two questions."""
        first = (await ask_client({"first": NAME}))["first"]
        await ask_client({"second": NAME})
        return str(first.content["name"])

    async def call(client: Client, times: int, **given: Any) -> Any:
        return await client.session.call_tool("ask_two", {"times": times}, allow_input_required=True, **given)

    async with client_of(ask_two, elicitation_callback=Person()) as client:
        asked = await call(client, 1, input_responses={"first": accepted(name="Ann")})
        assert isinstance(asked, InputRequiredResult)
        assert list(asked.input_requests or {}) == ["second"]
        state = str(asked.request_state)
        assert "Ann" not in state
        for times, changed in ((1, state + "x"), (2, state)):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await call(client, times, request_state=changed)
        done = await call(client, 1, input_responses={"second": accepted(name="Bob")}, request_state=state)
        assert text(done) == "Ann"
        monkeypatch.setattr(client_module, "MAX_STATE_BYTES", 10)
        refused = await call(client, 1, input_responses={"first": accepted(name="Ann")})
        assert "larger than 10 bytes" in text(refused)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
    ],
)
def test_schema_that_is_no_form_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="invalid schema of a form"):
        FormRequest("How old?", schema)
