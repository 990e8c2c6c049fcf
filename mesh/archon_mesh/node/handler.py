"""From a task to the messages of one model call, and from its reply to the answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from archon import context, status
from archon.agent import Answer, ContextItem, TaskContext
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon_mesh.core.memory_item import MemoryItem
from archon_mesh.core.messages import ChatMessage, with_shared_context
from archon_mesh.llm import ModelClient, ModelReply, ModelRequest
from archon_mesh.node.role import Role


def messages_for(role: Role, task: TaskContext) -> list[ChatMessage]:
    """The role's system prompt, one system message per context item in the order given, what a coordinating role is
    told of the others, and the task as the user's query."""
    messages = [ChatMessage("system", role.system_prompt)]
    if task.awareness:
        messages.append(ChatMessage("system", task.awareness))
    messages.append(ChatMessage("user", task.text))
    return with_shared_context(messages, [_memory_item(item) for item in task.context])


def answer_with(role: Role, model: ModelClient) -> Callable[[TaskContext], Awaitable[Answer]]:
    """A handler that asks the model once: text is streamed as it comes, the call recorded as it was made. What the
    model raises becomes the task's failure."""

    async def answer(task: TaskContext) -> Answer:
        request = ModelRequest(
            messages=messages_for(role, task),
            temperature=role.temperature,
            max_tokens=role.max_tokens,
            timeout=context.timeout(role.timeout),
        )
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
        return Answer(reply.text, usage=task.usage)

    return answer


def _memory_item(item: ContextItem) -> MemoryItem:
    return MemoryItem(
        source_id=item.role,
        content=item.text,
        timestamp=item.proto.publish_time.ToNanoseconds() / 1e9,
        version=max(1, item.version),  # 0: straight from the run's journal, which has one answer per role
        metadata=item.metadata,
    )


def _usage(reply: ModelReply) -> common_pb2.Usage:
    used = reply.usage
    return common_pb2.Usage(
        input_tokens=used.input_tokens, output_tokens=used.output_tokens, model_calls=1, estimated=used.estimated
    )


def _request_json(model: str, request: ModelRequest) -> dict[str, Any]:
    """As it was sent; `metadata` of a message is the framework's and stays here."""
    sent: dict[str, Any] = {"model": model, "messages": _messages_json(request.messages)}
    if request.temperature is not None:
        sent["temperature"] = request.temperature
    if request.max_tokens is not None:
        sent["max_tokens"] = request.max_tokens
    return sent


def _messages_json(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [
        {"role": message.role, "content": message.content}
        | ({"metadata": dict(message.metadata)} if message.metadata else {})
        for message in messages
    ]


def _response_json(reply: ModelReply) -> dict[str, Any]:
    return {
        "model": reply.model,
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "estimated": reply.usage.estimated,
        },
    }
