"""Resources and prompts of an MCP server, with a client of the same process."""

from __future__ import annotations

import asyncio
import base64
import threading
from typing import Annotated, Any, Literal

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

from archon.errors import AlreadyExists, InvalidArgument, ResourceExhausted
from archon_mesh.tools import Audio, Image, ToolExecutionEngine, ToolRegistry
from archon_mesh.tools import EmbeddedResource as Resource
from archon_mesh.tools.mcp import McpOffer, Prompt, PromptMessage, prompt, resource
from archon_mesh.tools.mcp.serving import functions as functions_module
from archon_mesh.tools.mcp.serving import handlers as handlers_module
from archon_mesh.tools.mcp.serving import prompts as prompts_module
from archon_mesh.tools.mcp.serving import resources as resources_module
from archon_mesh.tools.mcp.serving.functions import MAX_COMPLETIONS
from archon_mesh.tools.mcp.serving.offer import MAX_PROMPTS, MAX_PROVIDERS
from archon_mesh.tools.mcp.serving.server import create_server


def client_of(*items: Any, mode: Any = "auto") -> Client:
    """A client of a server that offers resources and prompts."""
    offer = McpOffer()
    for item in items:
        offer.add(item)
    return Client(create_server("s", ToolExecutionEngine(ToolRegistry()), offer=offer), mode=mode)


async def refusal(call: Any) -> MCPError:
    with pytest.raises(MCPError) as raised:
        await call
    return raised.value


@resource("config://app", media_type="text/markdown")
def config() -> str:
    """The configuration."""
    return "# ü"


@resource("user://{name}/{field}", name="user")
async def user(name: str, field: int) -> dict[str, Any]:
    """A field of a user."""
    return {"name": name, "field": field}


@resource("logo://png")
def logo() -> Image:
    """A logo."""
    return Image(b"png")


@resource("data://raw")
def raw() -> bytes:
    """Bytes."""
    return b"\xff"


async def test_resources_are_listed_and_read() -> None:
    async with client_of(config, user, logo, raw) as client:
        listed = (await client.list_resources()).resources
        assert [(each.uri, each.name, each.description, each.mime_type) for each in listed] == [
            ("config://app", "config", "The configuration.", "text/markdown"),
            ("logo://png", "logo", "A logo.", None),
            ("data://raw", "raw", "Bytes.", None),
        ]
        (template,) = (await client.list_resource_templates()).resource_templates
        assert (template.uri_template, template.name) == ("user://{name}/{field}", "user")
        assert template.description == "A field of a user."
        contents = [(await client.read_resource(each.uri)).contents[0] for each in listed]
        assert contents == [
            TextResourceContents(uri="config://app", mime_type="text/markdown", text="# ü"),
            BlobResourceContents(uri="logo://png", mime_type="image/png", blob=base64.b64encode(b"png").decode()),
            BlobResourceContents(
                uri="data://raw", mime_type="application/octet-stream", blob=base64.b64encode(b"\xff").decode()
            ),
        ]
        (read,) = (await client.read_resource("user://m%C3%BCller/7")).contents
        assert isinstance(read, TextResourceContents)
        assert (read.text, read.mime_type) == ('{"name": "müller", "field": 7}', "application/json")


@pytest.mark.parametrize(("mode", "code"), [("auto", -32602), ("legacy", -32002)])
async def test_unknown_resource_is_an_error_with_its_uri(mode: str, code: int) -> None:
    async with client_of(config, mode=mode) as client:
        error = await refusal(client.read_resource("config://other"))
        assert (error.code, error.data) == (code, {"uri": "config://other"})


@pytest.mark.parametrize("name", ["..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "a%2F..%2F..%2Fb", "a%00b", "%5Cx"])
async def test_variable_that_leads_out_of_a_folder_is_not_passed(name: str) -> None:
    passed: list[str] = []

    @resource("file://{name}")
    def file(name: str) -> str:
        """Reads a file."""
        passed.append(name)
        return name

    async with client_of(file) as client:
        assert (await refusal(client.read_resource(f"file://{name}"))).message == "Resource not found"
        await client.read_resource("file://a%2Fb..c")
    assert passed == ["a/b..c"]


async def test_failing_resource_is_an_error_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    @resource("broken://")
    def broken() -> str:
        """Fails."""
        raise KeyError("no ink")

    async with client_of(broken, user) as client:
        error = await refusal(client.read_resource("broken://"))
        assert "no ink" in error.message
        assert "Traceback" not in error.message
        assert "Traceback" in caplog.text
        assert "field" in (await refusal(client.read_resource("user://ann/seven"))).message


async def test_large_resource_and_other_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_module, "MAX_RESOURCE_BYTES", 10)

    @resource("large://")
    def large() -> str:
        """Is large."""
        return "ü" * 6

    @resource("odd://")
    def odd() -> object:
        """Is no JSON."""
        return object()

    async with client_of(large, odd) as client:
        assert "has 12 bytes; the limit is 10" in (await refusal(client.read_resource("large://"))).message
        assert "returns no JSON value" in (await refusal(client.read_resource("odd://"))).message


async def test_list_of_resources_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers_module, "MAX_RESOURCES", 2)
    async with client_of(config, logo, raw) as client:
        assert len((await client.list_resources()).resources) == 2
        await client.read_resource("data://raw")


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("no scheme", "expected a scheme"),
        ("a://{name", "invalid URI"),
        ("a://{other}", r"the function has the parameters \['name'\], the URI \['other'\]"),
        ("a://fixed", r"the URI \[\]"),
        ("a://" + "x" * 2_000, "at most 2000 characters"),
    ],
)
def test_invalid_uri_of_a_resource_is_refused(uri: str, message: str) -> None:
    def named(name: str) -> str:
        """Named."""
        return name

    with pytest.raises(InvalidArgument, match=message):
        resource(uri)(named)


@prompt(
    complete={"topic": ["sea", "season", "sky"], "mood": lambda typed: (f"{typed}{number}" for number in range(200))}
)
def poem(
    topic: Annotated[str, Field(description="What about?")], mood: str = "calm", form: Literal["ode", "song"] = "ode"
) -> str:
    """Writes a poem."""
    return f"A {mood} {form} about the {topic}."


@prompt(name="mixed", description="A conversation.")
async def talk() -> list[Any]:
    return [
        "Hear and see:",
        Image(b"1"),
        PromptMessage(Audio(b"2")),
        PromptMessage(Resource(b"a note", uri="note://1"), role="assistant"),
    ]


async def test_prompts_are_listed_with_their_arguments() -> None:
    async with client_of(poem, talk) as client:
        first, second = (await client.list_prompts()).prompts
        arguments = [(each.name, each.description, each.required) for each in first.arguments or []]
        assert (first.name, first.description) == ("poem", "Writes a poem.")
        assert arguments == [("topic", "What about?", True), ("mood", None, False), ("form", None, False)]
        assert (second.name, second.description, second.arguments) == ("mixed", "A conversation.", [])


async def test_prompt_returns_messages_of_texts_and_files() -> None:
    async with client_of(poem, talk) as client:
        answer = await client.get_prompt("poem", {"topic": "sea", "form": "song"})
        (message,) = answer.messages
        assert answer.description == "Writes a poem."
        assert (message.role, message.content) == ("user", TextContent(text="A calm song about the sea."))
        messages = (await client.get_prompt("mixed")).messages
        assert [type(each.content) for each in messages] == [TextContent, ImageContent, AudioContent, EmbeddedResource]
        assert [each.role for each in messages] == ["user", "user", "user", "assistant"]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("poem", {}, "topic"),
        ("poem", {"topic": "sea", "form": "novel"}, "form"),
        ("poem", {"topic": "sea", "author": "x"}, "author"),
        ("none", {}, "no prompt 'none'"),
    ],
)
async def test_wrong_arguments_of_a_prompt_are_refused(name: str, arguments: dict[str, str], message: str) -> None:
    async with client_of(poem) as client:
        error = await refusal(client.get_prompt(name, arguments))
        assert error.code == -32602
        assert message in error.message


async def test_prompt_of_other_values_or_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts_module, "MAX_PROMPT_BYTES", 10)

    @prompt
    def odd() -> int:
        """Returns a number."""
        return 1

    @prompt
    def many() -> list[str]:
        """Returns many messages."""
        return ["x"] * 101

    @prompt
    def large() -> list[Any]:
        """Returns large messages."""
        return ["x" * 6, Image(b"x" * 5)]

    async with client_of(odd, many, large) as client:
        assert "returns int" in (await refusal(client.get_prompt("odd"))).message
        assert "has 101 messages; the limit is 100" in (await refusal(client.get_prompt("many"))).message
        assert "has 11 bytes; the limit is 10" in (await refusal(client.get_prompt("large"))).message


@pytest.mark.parametrize(
    ("argument", "typed", "values"),
    [
        *(("topic", "se", ["sea", "season"]), ("topic", "x", []), ("form", "s", ["song"]), ("other", "", [])),
        ("mood", "m", [f"m{number}" for number in range(MAX_COMPLETIONS)]),
    ],
)
async def test_arguments_of_prompts_are_completed(argument: str, typed: str, values: list[str]) -> None:
    async with client_of(poem) as client:
        answer = await client.complete(PromptReference(name="poem"), {"name": argument, "value": typed})
        assert answer.completion.values == values
        assert answer.completion.has_more is (argument == "mood")


@pytest.mark.parametrize(("count", "is_cut"), [(MAX_COMPLETIONS, False), (MAX_COMPLETIONS + 1, True)])
async def test_a_long_list_of_completions_is_cut_and_says_so(count: int, is_cut: bool) -> None:
    @prompt(description="Picks one.", complete={"word": [f"w{number}" for number in range(count)]})
    def pick(word: str) -> str:
        """Another text."""
        return word

    async with client_of(pick) as client:
        assert [each.description for each in (await client.list_prompts()).prompts] == ["Picks one."]
        answer = await client.complete(PromptReference(name="pick"), {"name": "word", "value": "w"})
        assert (len(answer.completion.values), answer.completion.has_more) == (MAX_COMPLETIONS, is_cut)


async def test_plain_function_may_return_what_is_awaited() -> None:
    async def later(word: str) -> str:
        return f"later: {word}"

    @prompt
    def soon(word: str) -> object:
        """Comes soon."""
        return later(word)

    async with client_of(soon) as client:
        (message,) = (await client.get_prompt("soon", {"word": "x"})).messages
        assert message.content == TextContent(text="later: x")


async def test_variables_of_templates_are_completed() -> None:
    @resource("city://{name}", complete={"name": ["Bern", "Berlin", "Rome"]})
    def city(name: str) -> str:
        """A city."""
        return name

    async with client_of(city, config) as client:
        asked = {"name": "name", "value": "Be"}
        answer = await client.complete(ResourceTemplateReference(uri="city://{name}"), asked)
        assert answer.completion.values == ["Bern", "Berlin"]
        for reference in (ResourceTemplateReference(uri="config://app"), PromptReference(name="none")):
            assert (await refusal(client.complete(reference, asked))).code == -32602


def test_completion_of_something_else_is_refused() -> None:
    def plain(topic: str) -> str:
        """Writes."""
        return topic

    with pytest.raises(InvalidArgument, match="'other' is not a parameter"):
        prompt(complete={"other": ["x"]})(plain)


async def test_function_that_is_late_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions_module, "MAX_THREADS", 1)
    go_on = threading.Event()

    @prompt(seconds=0.01)
    def blocked() -> str:
        """Blocks a thread."""
        go_on.wait()
        return "late"

    @prompt(seconds=0.01)
    async def waiting() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return "late"

    try:
        async with client_of(blocked, waiting) as client:
            for name in ("blocked", "waiting"):
                assert "no answer within 0.01 s" in (await refusal(client.get_prompt(name))).message
            assert "1 threads that have not ended" in (await refusal(client.get_prompt("blocked"))).message
    finally:
        go_on.set()


def made(name: str) -> Prompt:
    return prompt(name=name)(lambda: "text")


def test_prompts_and_resources_of_an_offer_are_bounded() -> None:
    offer = McpOffer(prompts=[made(f"p{number}") for number in range(MAX_PROMPTS)], resources=[config] * MAX_PROVIDERS)
    with pytest.raises(ResourceExhausted, match=f"more than {MAX_PROMPTS} prompts"):
        offer.add(made("more"))
    with pytest.raises(ResourceExhausted, match=f"more than {MAX_PROVIDERS} resources"):
        offer.add(config)


def test_offer_refuses_a_second_prompt_of_a_name_and_other_things() -> None:
    offer = McpOffer(prompts=[made("p")])
    with pytest.raises(AlreadyExists, match="'p'"):
        offer.add(made("p"))
    other: Any = test_offer_refuses_a_second_prompt_of_a_name_and_other_things
    with pytest.raises(InvalidArgument, match="not a resource or a prompt"):
        offer.add(other)


async def test_server_without_an_offer_declares_tools_only() -> None:
    async with Client(create_server("s", ToolExecutionEngine(ToolRegistry())), mode="legacy") as client:
        assert client.server_capabilities.resources is None
        assert client.server_capabilities.prompts is None
