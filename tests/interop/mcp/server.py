"""The server that the MCP conformance suite expects, written with Archon's public API: `archon mcp
tests.interop.mcp.server:offer --http PORT`. The suite documents each name and text."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field
from typing_extensions import override

from archon_mesh.agent import Agent
from archon_mesh.tools import Audio, EmbeddedResource, Image, Tool, ask_person, tool
from archon_mesh.tools.mcp import (
    ClientRequest,
    CompletionRequest,
    FormAnswer,
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

PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV: Final = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")


def form(**properties: Any) -> dict[str, Any]:
    """Returns the schema of a form in which everything is required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


NAME: Final = FormRequest("What is your name?", form(name={"type": "string"}))


def shown(answer: FormAnswer) -> str:
    """Returns an answer as the suite reads it."""
    return f"action={answer.action}, content={json.dumps(dict(answer.content))}"


# Results -------------------------------------------------------------------------------------------------------


@tool
def test_simple_text() -> str:
    """Returns a text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Image:
    """Returns an image."""
    return Image(PNG)


@tool
def test_audio_content() -> Audio:
    """Returns a sound."""
    return Audio(WAV)


@tool
def test_embedded_resource() -> EmbeddedResource:
    """Returns a resource."""
    return EmbeddedResource(b"This is an embedded resource content.", uri="test://embedded-resource")


@tool
def test_multiple_content_types() -> list[Any]:
    """Returns a text, an image and a resource."""
    data = EmbeddedResource(b'{"test": "data", "value": 123}', "application/json", "test://mixed-content-resource")
    return ["Multiple content types test:", Image(PNG), data]


@tool
def test_error_handling() -> str:
    """Fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


class SchemaTool(Tool):
    """A tool whose schema uses the vocabulary of JSON Schema 2020-12."""

    name = "json_schema_2020_12_tool"
    description = "Has a schema with references, conditions and compositions."
    parameters_schema: Mapping[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }

    @override
    async def execute(self, **kwargs: Any) -> Any:
        return kwargs


@tool(name="test_x_mcp_header")
def in_a_header(
    region: Annotated[str, Field(description="A region.", json_schema_extra={"x-mcp-header": "Region"})] = "none",
) -> str:
    """Has a parameter that travels in a header, too."""
    return f"region={region}"


# Reports -------------------------------------------------------------------------------------------------------


@tool
async def test_tool_with_progress() -> str:
    """Reports its progress."""
    for done in (0, 50, 100):
        await report_progress(done, 100, f"Completed step {done} of 100")
    return "done"


@tool
async def test_tool_with_logging() -> str:
    """Logs to the client."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log_to_client("info", message)
    return "logged"


@tool
async def test_logging_tool() -> str:
    """Logs to the client at each level."""
    await log_to_client("error", "an error")
    await log_to_client("debug", {"detail": 1}, "test")
    return "logged"


# Questions -----------------------------------------------------------------------------------------------------


@tool
async def test_sampling(prompt: str) -> str:
    """Asks the client's model."""
    return f"LLM response: {(await ask_client({'text': CompletionRequest(prompt, 100)}))['text']}"


@tool
async def test_elicitation(message: str) -> str:
    """Asks the person."""
    fields = form(username={"type": "string", "description": "User's response"}, email={"type": "string"})
    return f"User response: {shown((await ask_client({'user': FormRequest(message, fields)}))['user'])}"


@tool
async def test_elicitation_sep1034_defaults() -> str:
    """Asks the person, with default answers."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answers = await ask_client({"user": FormRequest("Who are you?", {"type": "object", "properties": properties})})
    return f"Elicitation completed: {shown(answers['user'])}"


def titled(*values: str) -> list[dict[str, str]]:
    """Returns a choice with titles."""
    return [{"const": value, "title": value.capitalize()} for value in values]


@tool
async def test_elicitation_sep1330_enums() -> str:
    """Asks the person to choose."""
    fields = {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled("value1", "value2", "value3")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("value1", "value2", "value3")}},
    }
    answers = await ask_client({"user": FormRequest("Choose.", {"type": "object", "properties": fields})})
    return f"Elicitation completed: {shown(answers['user'])}"


@tool
async def test_streaming_elicitation() -> str:
    """Asks the person by the means of every agent."""
    return f"confirmed: {(await ask_person('Shall I go on?')).text}"


@tool
async def test_missing_capability() -> str:
    """Needs a model of the client."""
    return str((await ask_client({"text": CompletionRequest("Say hello", 10)}))["text"])


@tool
async def test_input_required_result_elicitation() -> str:
    """Asks the person for a name."""
    return f"Hello, {(await ask_client({'user_name': NAME}))['user_name'].content.get('name', 'stranger')}!"


@tool
async def test_input_required_result_sampling() -> str:
    """Asks the client's model for a capital."""
    question = CompletionRequest("What is the capital of France?", 100)
    return f"Model said: {(await ask_client({'capital_question': question}))['capital_question']}"


@tool
async def test_input_required_result_list_roots() -> str:
    """Asks for the client's folders."""
    roots = (await ask_client({"client_roots": RootsRequest()}))["client_roots"]
    return f"Client exposed {', '.join(root.uri for root in roots)}."


CONFIRM: Final = FormRequest("Please confirm", form(ok={"type": "boolean"}))


@tool
async def test_input_required_result_request_state() -> str:
    """Asks for a confirmation."""
    return f"state-ok: {shown((await ask_client({'confirm': CONFIRM}))['confirm'])}"


@tool
async def test_input_required_result_tampered_state() -> str:
    """Asks for a confirmation, too."""
    return f"state-ok: {shown((await ask_client({'confirm': CONFIRM}))['confirm'])}"


@tool
async def test_input_required_result_multiple_inputs() -> str:
    """Asks for everything at once."""
    answers = await ask_client(
        {
            "user_name": NAME,
            "greeting": CompletionRequest("Generate a greeting", 50),
            "client_roots": RootsRequest(),
        }
    )
    return f"{answers['greeting']} {shown(answers['user_name'])}"


@tool
async def test_input_required_result_multi_round() -> str:
    """Asks one question after another."""
    first = await ask_client({"step1": FormRequest("Step 1: What is your name?", NAME.schema)})
    color = form(color={"type": "string"})
    second = await ask_client({"step2": FormRequest("Step 2: What is your favorite color?", color)})
    return f"{first['step1'].content.get('name')} likes {second['step2'].content.get('color')}."


@tool
async def test_input_required_result_capabilities() -> str:
    """Asks for what the client offers, and nothing else."""
    everything: dict[str, ClientRequest] = {"sample": CompletionRequest("Say hello", 50), "ask": NAME}
    answers = await ask_client({name: request for name, request in everything.items() if client_can(type(request))})
    return ", ".join(answers)


# Changes -------------------------------------------------------------------------------------------------------


@tool
def test_dynamic_tool() -> str:
    """A tool that comes later."""
    return "dynamic"


@prompt
def test_dynamic_prompt() -> str:
    """A prompt that comes and goes."""
    return "dynamic"


@tool
def test_trigger_tool_change() -> str:
    """Changes the tools."""
    namespace = "later"
    agent.engine.registry.set_namespace(namespace, [test_dynamic_tool])
    agent.engine.registry.set_namespace(namespace, [])
    return "changed"


@tool
def test_trigger_prompt_change() -> str:
    """Changes the prompts."""
    offer.add(test_dynamic_prompt)
    offer.remove(test_dynamic_prompt)
    return "changed"


# Resources -----------------------------------------------------------------------------------------------------


@resource("test://static-text")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@resource("test://static-binary", media_type="image/png")
def static_binary() -> bytes:
    """An image."""
    return PNG


@resource("test://template/{id}/data", media_type="application/json")
def template(id: str) -> dict[str, Any]:
    """Data of an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@resource("test://watched-resource")
def watched() -> str:
    """A resource to subscribe to."""
    return "Watched resource content"


# Prompts -------------------------------------------------------------------------------------------------------


@prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@prompt(complete={"arg1": ["paris", "park", "party"]})
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    """A prompt with a resource."""
    embedded = EmbeddedResource(b"Embedded resource content for testing.", uri=resourceUri)
    return [embedded, "Please process the embedded resource above."]


@prompt
def test_prompt_with_image() -> list[Any]:
    """A prompt with an image."""
    return [Image(PNG), "Please analyze the image above."]


@prompt
async def test_input_required_result_prompt() -> str:
    """A prompt that asks the person."""
    question = FormRequest("What context should the prompt use?", form(context={"type": "string"}))
    answers = await ask_client({"user_context": question})
    return f"Use the following context: {answers['user_context'].content.get('context')}"


agent = Agent(
    "conformance",
    description="Everything that a client may use.",
    tools=[
        *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource),
        *(test_multiple_content_types, test_error_handling, SchemaTool(), in_a_header),
        *(test_tool_with_progress, test_tool_with_logging, test_logging_tool),
        *(test_sampling, test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums),
        *(test_streaming_elicitation, test_missing_capability),
        *(test_input_required_result_elicitation, test_input_required_result_sampling),
        *(test_input_required_result_list_roots, test_input_required_result_request_state),
        *(test_input_required_result_tampered_state, test_input_required_result_multiple_inputs),
        *(test_input_required_result_multi_round, test_input_required_result_capabilities),
        *(test_trigger_tool_change, test_trigger_prompt_change),
    ],
)
offer = McpOffer(
    agent,
    resources=[static_text, static_binary, template, watched],
    prompts=[
        *(test_simple_prompt, test_prompt_with_arguments, test_prompt_with_embedded_resource),
        *(test_prompt_with_image, test_input_required_result_prompt),
    ],
)
