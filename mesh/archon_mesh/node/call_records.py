"""Calls of models and tools in the form in which they are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from archon.agent.redaction import RecordMode, record_mode, redacted_value
from archon.errors import ArchonError
from archon.types import Usage as CallUsage
from archon_mesh.core.masking import masked_arguments, masked_value
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, Usage
from archon_mesh.llm.exchanges import SentRequest
from archon_mesh.llm.wire import call_to_wire, message_to_record, tool_to_wire
from archon_mesh.node.redaction import redacted_request, redacted_response
from archon_mesh.node.sent_record import sent_json
from archon_mesh.tools.result import ToolResult


def to_call_usage(usage: Usage | None) -> CallUsage:
    """Returns the usage of one model call, as its task counts it; nothing for a call that is not counted."""
    if usage is None:
        return CallUsage()
    return CallUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        model_calls=1,
        cost_micro_usd=usage.cost_micro_usd,
        estimated=usage.estimated,
        cached_input_tokens=usage.cached_input_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


def request_json(
    model: str, request: ModelRequest, origins: list[dict[str, Any]], sent: SentRequest | None = None
) -> dict[str, Any]:
    """Returns the request of the agent, plus data that is never sent: the `origins` of the messages, one for each, and
    their `metadata`. `sent` is the request that the client made of it for its provider. Without contents in the mode
    REDACTED."""
    data: dict[str, Any] = {
        "model": model,
        "messages": [_message_json(message) for message in request.messages],
        "origins": origins,
    }
    if request.tools:
        data["tools"] = [tool_to_wire(tool) for tool in request.tools]
    if request.temperature is not None:
        data["temperature"] = request.temperature
    if request.max_tokens is not None:
        data["max_tokens"] = request.max_tokens
    if request.is_json:
        data["is_json"] = True
    if request.output_schema is not None:
        data["output_schema"] = dict(request.output_schema)
    if sent is not None:
        data["sent"] = sent_json(sent, request.messages, data)
    return redacted_request(data) if record_mode() is RecordMode.REDACTED else data


def response_json(reply: ModelReply) -> dict[str, Any]:
    """Returns the reply as it was received; without contents in the mode REDACTED."""
    calls = {"tool_calls": [_call_json(call) for call in reply.tool_calls]} if reply.tool_calls else {}
    usage = reply.usage
    rarer = {name: getattr(usage, name) for name in ("cached_input_tokens", "cache_write_tokens", "cost_micro_usd")}
    return _response(
        {
            "model": reply.model,
            "text": reply.text,
            **calls,
            "finish_reason": reply.finish_reason,
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "estimated": usage.estimated,
                **{name: count for name, count in rarer.items() if count},
            },
        }
    )


def error_json(error: ArchonError, text: str) -> dict[str, Any]:
    """Returns the response of a call that failed after the model had written `text`; without contents in the mode
    REDACTED."""
    return _response({"error": {"code": error.code, "reason": error.reason, "message": str(error)}, "text": text})


def tool_json(arguments: Mapping[str, Any], result: ToolResult) -> tuple[Any, dict[str, Any]]:
    """Returns the arguments and the response of a tool call; without contents in the mode REDACTED."""
    content = _json_value(result)
    if record_mode() is RecordMode.REDACTED:
        return redacted_value(arguments), {"status": result.status, "content": redacted_value(content)}
    return masked_value(arguments), {"status": result.status, "content": content}


def _response(response: dict[str, Any]) -> dict[str, Any]:
    return redacted_response(response) if record_mode() is RecordMode.REDACTED else response


def _json_value(result: ToolResult) -> Any:
    if not result.ok or isinstance(result.content, Media):
        return result.text
    return result.content if isinstance(result.content, (str, int, float, bool, type(None))) else result.text


def _call_json(call: ToolCall) -> dict[str, Any]:
    return call_to_wire(replace(call, arguments_json=masked_arguments(call.arguments_json)))


def _message_json(message: ChatMessage) -> dict[str, Any]:
    data = message_to_record(message)
    if message.tool_calls:
        data["tool_calls"] = [_call_json(call) for call in message.tool_calls]
    return data | ({"metadata": dict(message.metadata)} if message.metadata else {})
