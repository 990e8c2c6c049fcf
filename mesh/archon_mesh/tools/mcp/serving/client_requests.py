"""The requests to an MCP client, and its answers, as values and as messages of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from archon.errors import InvalidArgument
from archon_mesh.tools.mcp.forms import is_form, mismatch

if TYPE_CHECKING:
    import mcp_types as types


@dataclass(frozen=True, slots=True)
class FormRequest:
    """Asks the person behind the client to fill in a form: `schema` is a JSON Schema of type object whose properties
    are texts, numbers, booleans and choices; without properties the person confirms. The answer is a FormAnswer."""

    text: str
    schema: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Raises InvalidArgument if the schema is not one of a form."""
        if not is_form(self.schema):
            raise InvalidArgument(
                "invalid schema of a form: expected an object of texts, numbers, booleans and choices"
            )


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """Asks the client's model to complete a prompt, in at most `max_tokens` tokens. The answer is a text. Version
    2026-07-28 of the protocol discourages it."""

    text: str
    max_tokens: int
    system: str = ""


@dataclass(frozen=True, slots=True)
class RootsRequest:
    """Asks for the folders that the client works in. The answer is a tuple of Root. Version 2026-07-28 of the
    protocol discourages it."""


ClientRequest = FormRequest | CompletionRequest | RootsRequest


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """A person's answer to a form. `content` are the values by their names; it is empty unless the `action` is
    `accept`."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that a client works in."""

    uri: str
    name: str = ""


CAPABILITIES: Final[Mapping[type[ClientRequest], str]] = {
    FormRequest: "elicitation",
    CompletionRequest: "sampling",
    RootsRequest: "roots",
}
"""The capabilities that a client declares, by the requests that need them."""


def encoded(request: ClientRequest) -> types.InputRequest:
    """Returns a request as a message of the protocol."""
    import mcp_types as types

    if isinstance(request, FormRequest):
        form = types.ElicitRequestFormParams(message=request.text, requested_schema=dict(request.schema))
        return types.ElicitRequest(params=form)
    if isinstance(request, CompletionRequest):
        message = types.SamplingMessage(role="user", content=types.TextContent(text=request.text))
        return types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(
                messages=[message], max_tokens=request.max_tokens, system_prompt=request.system or None
            )
        )
    return types.ListRootsRequest()


def decoded(request: ClientRequest, raw: Mapping[str, Any]) -> Any:
    """Returns the answer for a result of the protocol. Raises InvalidArgument if it does not match the request."""
    if isinstance(request, FormRequest):
        return _form_answer(request, raw)
    if isinstance(request, CompletionRequest):
        content = raw.get("content")
        if not isinstance(content, Mapping):
            raise InvalidArgument("the client's completion has no content")
        return str(content.get("text") or f"[{content.get('mimeType', content.get('type'))}]")
    roots = raw.get("roots")
    if not isinstance(roots, list):
        raise InvalidArgument("the client's answer has no roots")
    return tuple(Root(str(root["uri"]), str(root.get("name") or "")) for root in roots)


def _form_answer(request: FormRequest, raw: Mapping[str, Any]) -> FormAnswer:
    action = raw.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise InvalidArgument("the client's answer to a form has no action")
    if action != "accept":
        return FormAnswer(action)
    content = raw.get("content") or {}
    if (problem := mismatch(request.schema, content)) is not None:
        raise InvalidArgument(f"the client's answer does not match the form: {problem}")
    return FormAnswer("accept", content)
