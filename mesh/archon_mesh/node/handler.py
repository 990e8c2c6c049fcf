"""From a task to the messages of a model call, and from its reply to the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from archon.agent import Answer, ContextItem, TaskContext
from archon_mesh.core.awareness import awareness_chat_message
from archon_mesh.core.memory_item import MemoryItem
from archon_mesh.core.messages import ChatMessage, with_shared_context
from archon_mesh.llm import ModelClient
from archon_mesh.node.asking import ask
from archon_mesh.node.role import Role


def messages_for(role: Role, task: TaskContext) -> list[ChatMessage]:
    """The role's system prompt, one system message per context item in the order given, what a coordinating role is
    told of the others, and the task as the user's query."""
    messages = [ChatMessage("system", role.system_prompt)]
    if role.coordinator and task.awareness:
        messages.append(awareness_chat_message(task.awareness))
    messages.append(ChatMessage("user", task.text))
    return with_shared_context(messages, [_memory_item(item) for item in task.context])


def answer_with(role: Role, model: ModelClient) -> Callable[[TaskContext], Awaitable[Answer]]:
    """A handler that asks the model once: text is streamed as it comes, the call recorded as it was made. What the
    model raises becomes the task's failure."""

    async def answer(task: TaskContext) -> Answer:
        reply = await ask(role, task, model, messages_for(role, task))
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
