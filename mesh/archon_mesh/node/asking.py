"""One call of a model on behalf of a task: paid for, streamed, recorded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from archon import context, status
from archon.agent import TaskContext
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelClient, ModelReply, ModelRequest, ToolSpec, estimate_input
from archon_mesh.llm.wire import call_to_wire, message_to_wire, tool_to_wire
from archon_mesh.node.role import Role

OUTPUT_TOKENS: Final = 1024
"""Reserved for a reply whose length the role doesn't bound."""


async def ask(
    role: Role,
    task: TaskContext,
    model: ModelClient,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec] = (),
) -> ModelReply:
    """The model's reply. Its text is written as it comes, and the call recorded exactly as it was made, also where it
    fails. Raises what the model raises, and BudgetExhausted before the call where there isn't enough left for it."""
    request = ModelRequest(
        messages=tuple(messages),
        tools=tuple(tools),
        temperature=role.temperature,
        max_tokens=role.max_tokens,
        timeout=context.timeout(role.timeout),
    )
    await task.reserve(tokens=estimate_input(request) + (role.max_tokens or OUTPUT_TOKENS))
    started, begun = time.time(), time.monotonic()

    def record(response: dict[str, Any], usage: common_pb2.Usage) -> None:
        task.record_model_call(
            model.model,
            _request_json(model.model, request),
            response,
            started=started,
            seconds=time.monotonic() - begun,
            usage=usage,
        )

    text: list[str] = []
    reply: ModelReply | None = None
    try:
        async for chunk in model.stream(request):
            if chunk.text_delta:
                text.append(chunk.text_delta)
                task.write(chunk.text_delta)
            reply = chunk.reply or reply
        if reply is None:
            raise Unavailable("the model's stream was cut off before the reply was complete")
    except BaseException as raised:  # noqa: BLE001 - raised again; a call that failed is recorded too
        error = status.as_error(raised)
        told = {"code": error.code, "reason": error.reason, "message": str(error)}
        record({"error": told, "text": "".join(text)}, common_pb2.Usage())
        raise error if isinstance(raised, Exception) else raised from None
    record(_response_json(reply), _usage(reply))
    return reply


def _usage(reply: ModelReply) -> common_pb2.Usage:
    used = reply.usage
    return common_pb2.Usage(
        input_tokens=used.input_tokens, output_tokens=used.output_tokens, model_calls=1, estimated=used.estimated
    )


def _request_json(model: str, request: ModelRequest) -> dict[str, Any]:
    """As it was sent; `metadata` of a message is the framework's and stays here."""
    sent: dict[str, Any] = {"model": model, "messages": [_message_json(message) for message in request.messages]}
    if request.tools:
        sent["tools"] = [tool_to_wire(tool) for tool in request.tools]
    if request.temperature is not None:
        sent["temperature"] = request.temperature
    if request.max_tokens is not None:
        sent["max_tokens"] = request.max_tokens
    return sent


def _message_json(message: ChatMessage) -> dict[str, Any]:
    return message_to_wire(message) | ({"metadata": dict(message.metadata)} if message.metadata else {})


def _response_json(reply: ModelReply) -> dict[str, Any]:
    calls = {"tool_calls": [call_to_wire(call) for call in reply.tool_calls]} if reply.tool_calls else {}
    return {
        "model": reply.model,
        "text": reply.text,
        **calls,
        "finish_reason": reply.finish_reason,
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "estimated": reply.usage.estimated,
        },
    }
