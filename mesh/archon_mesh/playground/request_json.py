"""Requests and replies of models from their recorded JSON, and messages and tools of variants to JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from archon.agent.redaction import REDACTED
from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ToolSpec, Usage
from archon_mesh.llm.wire import message_to_record

ROLES: Final = ("system", "user", "assistant", "tool")


def to_request(data: Mapping[str, Any]) -> ModelRequest:
    """Returns the request of a record. Raises FailedPrecondition if contents of it were not recorded, InvalidArgument
    if it has another form."""
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise FailedPrecondition("the request was not recorded: it was too large, or has the form of another SDK")
    schema = data.get("output_schema")
    return ModelRequest(
        messages=[to_message(message, f"message {number}") for number, message in enumerate(messages, 1)],
        tools=[to_tool(tool, f"tool {number}") for number, tool in enumerate(data.get("tools") or (), 1)],
        temperature=_number(data, "temperature", float),
        max_tokens=_number(data, "max_tokens", int),
        is_json=data.get("is_json") is True,
        output_schema=None
        if schema is None
        else _object(_content(schema, "the schema of the answer"), "output_schema"),
    )


def to_message(data: Any, name: str) -> ChatMessage:
    """Returns a message; `name` is its name in errors. Raises as `to_request` does."""
    message = _object(data, name)
    role = message.get("role")
    if role not in ROLES:
        raise InvalidArgument(f"{name} has the role {role!r}, expected one of {', '.join(ROLES)}")
    calls = message.get("tool_calls") or ()
    metadata = message.get("metadata") or {}
    return ChatMessage(
        cast("Literal['system', 'user', 'assistant', 'tool']", role),
        _text(message.get("content"), name),
        tool_calls=tuple(_to_call(call, name) for call in _list(calls, f"{name}: tool_calls")),
        tool_call_id=_optional(message, "tool_call_id", name),
        name=_optional(message, "name", name),
        metadata=_object(metadata, f"{name}: metadata"),
        files=tuple(_to_file(file, name) for file in _list(message.get("files") or (), f"{name}: files")),
    )


def message_json(message: ChatMessage) -> dict[str, Any]:
    """Returns a message as `to_message` reads it, without its metadata."""
    return message_to_record(message)


def to_tool(data: Any, name: str) -> ToolSpec:
    """Returns a tool. Raises as `to_request` does."""
    function = _object(_object(data, name).get("function"), name)
    _content(function, name)
    parameters = _object(function.get("parameters") or {}, f"{name}: parameters")
    return ToolSpec(str(function.get("name", "")), str(function.get("description", "")), parameters)


def to_reply(data: Mapping[str, Any]) -> ModelReply:
    """Returns the recorded reply of a model. Raises as `to_request` does."""
    usage = _object(data.get("usage") or {}, "the usage")
    calls = _list(data.get("tool_calls") or (), "tool_calls of the reply")
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "cost_micro_usd")
    counts = {name: int(usage.get(name) or 0) for name in names}
    return ModelReply(
        _text(data.get("text"), "the reply"),
        tuple(_to_call(call, "the reply") for call in calls),
        Usage(estimated=usage.get("estimated") is True, **counts),
        str(data.get("model") or ""),
        str(data.get("finish_reason") or "stop"),
    )


def _to_call(data: Any, name: str) -> ToolCall:
    call = _object(data, f"a tool call of {name}")
    function = _object(call.get("function"), f"a tool call of {name}")
    arguments = _text(function.get("arguments"), f"a tool call of {name}")
    return ToolCall(str(call.get("id") or ""), str(function.get("name") or ""), arguments)


def _to_file(data: Any, name: str) -> Media:
    file = _object(data, f"a file of {name}")
    media_type, url = str(file.get("media_type") or ""), file.get("url")
    if not isinstance(url, str):
        shown = file.get("name") if isinstance(file.get("name"), str) else media_type
        raise FailedPrecondition(f"{name} has the file {shown}, whose contents are not recorded")
    return Media.at(url, media_type, name=str(file.get("name") or ""))


def _text(value: Any, name: str) -> str:
    value = _content(value, name)
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} has a content that is no text")
    return value or ""


def _content(value: Any, name: str) -> Any:
    if isinstance(value, Mapping) and REDACTED in value:
        raise FailedPrecondition(f"the contents of {name} were not recorded (ARCHON_RECORDS=redacted)")
    return value


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{name} is no object")
    return value


def _list(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise InvalidArgument(f"{name} is no list")
    return value


def _optional(message: Mapping[str, Any], key: str, name: str) -> str | None:
    value = message.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name}: {key} is no text")
    return value


def _number(data: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, kind)):
        raise InvalidArgument(f"{key} is {value!r}, expected a number")
    return value
