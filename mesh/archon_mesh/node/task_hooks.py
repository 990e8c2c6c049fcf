"""What ties an agent's run to a task of the mesh: its context comes with the task, its calls are paid for and recorded,
its text is streamed. All of it is one middleware, for one task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final

from archon import context, status
from archon.agent import ContextItem, TaskContext
from archon.api.common.v1 import common_pb2
from archon.errors import FailedPrecondition
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall
from archon_mesh.agent.hooks.points import HookContext
from archon_mesh.agent.loop.model_request import ModelParams
from archon_mesh.core.awareness import awareness_chat_message
from archon_mesh.core.memory_item import MemoryItem
from archon_mesh.core.messages import ChatMessage, with_shared_context
from archon_mesh.llm import ModelReply, estimate_input
from archon_mesh.node.call_records import request_json, response_json, usage_of
from archon_mesh.node.checkpoint import saved
from archon_mesh.tools.image import Image
from archon_mesh.tools.result import ToolResult

OUTPUT_TOKENS: Final = 1024
"""Reserved for a reply whose length the agent doesn't bound."""


class Attempt:
    """The task that an agent works on, for its tools and sub-agents."""

    def __init__(self, task: TaskContext) -> None:
        self.task = task
        self._checkpoint = b""

    def said(self, turns: Sequence[ChatMessage]) -> None:
        """The model's last reply included: what a later attempt goes on from, once its calls are made."""
        self._checkpoint = saved(turns)

    def take_checkpoint(self) -> bytes:
        """To go with the first call of the reply that is delegated; empty for the others: one is enough for all."""
        taken, self._checkpoint = self._checkpoint, b""
        return taken


_current: ContextVar[Attempt | None] = ContextVar("archon_attempt", default=None)


def current_attempt() -> Attempt | None:
    """None outside of a task of the mesh."""
    return _current.get()


def get_task() -> TaskContext:
    """The task of the mesh that this code works on. Raises FailedPrecondition outside of one."""
    attempt = _current.get()
    if attempt is None:
        raise FailedPrecondition("no task of the mesh is worked on here")
    return attempt.task


class TaskMiddleware(Middleware):
    """For one task, which is the current one as long as the agent works on it."""

    def __init__(
        self, task: TaskContext, model: str, turns: Sequence[ChatMessage] = (), *, coordinates: bool = True
    ) -> None:
        """`model` is the name that calls are recorded under; `turns` those that an earlier attempt left; one that
        `coordinates` is told of the edges among those that it can delegate to."""
        self.attempt = Attempt(task)
        if turns:
            self.attempt.said(turns)
        self._task = task
        self._awareness = task.awareness if coordinates else ""
        self._model = model
        self._items = [memory_item(item) for item in task.context]
        self._text: list[str] = []
        self._began: dict[str, tuple[float, float]] = {}

    def query_start(self, hook: HookContext) -> None:
        """From here on, in this agent's run and below it, this is the task."""
        _current.set(self.attempt)

    def before_model(self, hook: HookContext) -> None:
        """Adds what the task brought, and lets the call take no longer than the task may."""
        assert hook.params is not None
        hook.params.messages[:] = with_context(hook.params.messages, self._items, self._awareness)
        hook.params.timeout = context.timeout(hook.params.timeout)

    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        """The call recorded exactly as it was made, also where it fails. Raises BudgetExhausted before the call where
        there isn't enough left for it."""
        task, request = self._task, params.request()
        await task.reserve(tokens=estimate_input(request) + (params.max_tokens or OUTPUT_TOKENS))
        started, begun = time.time(), time.monotonic()

        def record(response: dict[str, Any], usage: common_pb2.Usage) -> None:
            sent, seconds = request_json(self._model, request), time.monotonic() - begun
            task.record_model_call(self._model, sent, response, started=started, seconds=seconds, usage=usage)

        self._text = []
        try:
            reply = await call(params)
        except BaseException as raised:  # noqa: BLE001 - raised again; a call that failed is recorded too
            error = status.as_error(raised)
            told = {"code": error.code, "reason": error.reason, "message": str(error)}
            record({"error": told, "text": "".join(self._text)}, common_pb2.Usage())
            raise error if isinstance(raised, Exception) else raised from None
        record(response_json(reply), usage_of(reply))
        return reply

    def stream_chunk(self, chunk: str, params: ModelParams) -> None:
        """Whoever watches sees it."""
        self._text.append(chunk)
        self._task.write(chunk)

    def after_model(self, hook: HookContext) -> None:
        """A reply with calls is no answer yet: what is said next stands apart."""
        assert hook.message is not None
        if hook.message.tool_calls:
            if hook.message.content:
                self._task.write("\n\n")
            self.attempt.said([*turns_of(hook), hook.message])

    def before_tool(self, hook: HookContext) -> None:
        """A call of a sub-agent is a task of its own, and shown as that."""
        if (call := hook.tool_call) is not None and call.name not in hook.agent.sub_agents:
            self._began[call.id] = (time.time(), time.monotonic())
            self._task.tell_tool_call(call.id, call.name, call.arguments_json)

    def after_tool(self, hook: HookContext) -> None:
        """Recorded with what it came to."""
        call, result = hook.tool_call, hook.tool_result
        if call is None or result is None or call.id not in self._began:
            return
        started, begun = self._began.pop(call.id)
        said = {"status": result.status, "content": _json_value(result)}
        self._task.record_tool_call(call.name, hook.arguments, said, started=started, seconds=time.monotonic() - begun)
        self._task.tell_tool_result(call.id, call.name, result.text, failed=not result.ok)


def turns_of(hook: HookContext) -> list[ChatMessage]:
    """What this run has come to since its query."""
    history = hook.state.history
    last = max((at for at, one in enumerate(history) if one.role == "user"), default=-1)
    return list(history[last + 1 :])


def with_context(messages: list[ChatMessage], items: list[MemoryItem], awareness: str) -> list[ChatMessage]:
    """After the system prompt: one system message per item, in the order given; then what a coordinating role is told
    of the others."""
    made = list(messages)
    if awareness:
        made.insert(1 if made and made[0].role == "system" else 0, awareness_chat_message(awareness))
    return with_shared_context(made, items)


def memory_item(item: ContextItem) -> MemoryItem:
    """An item of a task's context."""
    return MemoryItem(
        source_id=item.role,
        content=item.text,
        timestamp=item.proto.publish_time.ToNanoseconds() / 1e9,
        version=max(1, item.version),  # 0: straight from the run's journal, which has one answer per role
        metadata=item.metadata,
    )


def _json_value(result: ToolResult) -> Any:
    if not result.ok or isinstance(result.content, Image):
        return result.text
    return result.content if isinstance(result.content, (str, int, float, bool, type(None))) else result.text
