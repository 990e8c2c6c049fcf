"""Model calls in the form in which they are recorded."""

from __future__ import annotations

from typing import Any

from archon.api.common.v1 import common_pb2
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelReply, ModelRequest
from archon_mesh.llm.wire import call_to_wire, message_to_wire, tool_to_wire


def usage_of(reply: ModelReply) -> common_pb2.Usage:
    """Returns the usage of one model call."""
    usage = reply.usage
    return common_pb2.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        model_calls=1,
        cost_micro_usd=usage.cost_micro_usd,
        estimated=usage.estimated,
    )


def request_json(model: str, request: ModelRequest) -> dict[str, Any]:
    """Returns the request as it was sent, plus the `metadata` of messages, which is never sent as it is."""
    data: dict[str, Any] = {"model": model, "messages": [_message_json(message) for message in request.messages]}
    if request.tools:
        data["tools"] = [tool_to_wire(tool) for tool in request.tools]
    if request.temperature is not None:
        data["temperature"] = request.temperature
    if request.max_tokens is not None:
        data["max_tokens"] = request.max_tokens
    return data


def response_json(reply: ModelReply) -> dict[str, Any]:
    """Returns the reply as it was received."""
    calls = {"tool_calls": [call_to_wire(call) for call in reply.tool_calls]} if reply.tool_calls else {}
    usage = reply.usage
    rarer = {name: getattr(usage, name) for name in ("cached_input_tokens", "cache_write_tokens", "cost_micro_usd")}
    return {
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


def _message_json(message: ChatMessage) -> dict[str, Any]:
    return message_to_wire(message) | ({"metadata": dict(message.metadata)} if message.metadata else {})
