"""Connects an agent's run to a task of the mesh, as one middleware per task.

It injects the task's context, reserves budget, records model and tool calls, and streams text.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from typing_extensions import override

from archon import context, status
from archon.agent import ContextItem, Item, TaskContext
from archon.errors import FailedPrecondition, Unavailable
from archon.wire import described, to_seconds
from archon_mesh.agent.events.emit import call_id_of
from archon_mesh.agent.hooks.context import HookContext, ModelParams, ModelTry
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall, StreamChunk
from archon_mesh.agent.hooks.shared_memory import wider_items
from archon_mesh.agent.state.agent_state import get_context
from archon_mesh.core.awareness import awareness_chat_message
from archon_mesh.core.masking import masked_arguments
from archon_mesh.core.memory_item import MemoryItem
from archon_mesh.core.messages import ChatMessage, with_shared_context
from archon_mesh.llm import ModelReply, ToolCallDelta, Usage
from archon_mesh.llm.exchanges import Exchange
from archon_mesh.llm.prices import estimate_call
from archon_mesh.llm.text_format.errors import ParsingError
from archon_mesh.node.call_records import error_json, request_json, response_json, to_call_usage, tool_json
from archon_mesh.node.checkpoint import encode_checkpoint
from archon_mesh.node.message_origins import message_origins


class TaskAttempt:
    """The attempt at a task that an agent works on, for its tools and sub-agents."""

    def __init__(self, task: TaskContext) -> None:
        self.task = task
        self.messages: Sequence[ChatMessage] = ()
        """The messages that a later attempt resumes from; the last is the model's reply with its tool calls."""
        self._checkpoint = b""

    def set_checkpoint(self, messages: Sequence[ChatMessage]) -> None:
        """Sets the messages that a later attempt resumes from."""
        self.messages = messages
        self._checkpoint = encode_checkpoint(messages)

    @property
    def checkpoint(self) -> bytes:
        """The checkpoint, for a call that may become a delegation; empty if a delegation of this reply has it."""
        return self._checkpoint

    def take_checkpoint(self) -> bytes:
        """Returns the checkpoint once, for the first delegation of a reply; empty bytes for the others."""
        checkpoint, self._checkpoint = self._checkpoint, b""
        return checkpoint


_current_attempt: ContextVar[TaskAttempt | None] = ContextVar("archon_attempt", default=None)


def current_attempt() -> TaskAttempt | None:
    """Returns the current attempt, or None outside a task of the mesh."""
    return _current_attempt.get()


def get_task() -> TaskContext:
    """Returns the task of the mesh that this code works on. Raises FailedPrecondition outside a task."""
    attempt = _current_attempt.get()
    if attempt is None:
        raise FailedPrecondition("no task of the mesh is in progress here")
    return attempt.task


class TaskMiddleware(Middleware):
    """Connects the run to one task, which is the current task during the run of the agent and its sub-agents.

    Every model call gets the context of the task and at most its remaining time. Each of its tries is recorded as it
    was made, also if it fails. A call that the budget does not cover raises BudgetExhausted before it is made. Tool
    calls are recorded and reported to watchers; calls of sub-agents are not, because they are tasks of their own.
    """

    def __init__(self, task: TaskContext, resume_from: Sequence[ChatMessage] = (), *, coordinates: bool = True) -> None:
        """`resume_from` are the messages of an earlier attempt. If `coordinates` is set, the model receives the
        dependencies among the roles that it can delegate to."""
        self.attempt = TaskAttempt(task)
        if resume_from:
            self.attempt.set_checkpoint(resume_from)
        self._task = task
        self._awareness = task.awareness if coordinates else ""
        self.hidden: frozenset[str] = frozenset()
        """Steps whose answers the model does not see."""
        self._failed: ModelTry | None = None
        self.items: list[Item] = []
        """The items that the role publishes beside its answer at the run's end: for edges with a wider policy."""
        self._tool_starts: dict[str, tuple[float, float]] = {}
        self._written: dict[int, tuple[str, str]] = {}
        """Ids and names of the tool calls that the model writes now, by their number in its reply."""

    @override
    def query_start(self, hook: HookContext) -> None:
        _current_attempt.set(self.attempt)

    @override
    def before_model(self, hook: HookContext) -> None:
        assert hook.params is not None
        self._written.clear()
        hook.params.messages[:] = with_context(
            hook.params.messages,
            [to_memory_item(item) for item in self._task.context if item.proto.step_id not in self.hidden],
            self._awareness,
        )
        if allowed := self._task.allowed_tools:  # a source of tools may have connected since the run began
            hook.params.tools = [tool for tool in hook.params.tools if tool.name in allowed]
        hook.params.timeout = context.timeout(hook.params.timeout)

    @override
    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        tokens, cost = estimate_call(get_context().agent.model, params.request())
        await self._task.reserve(tokens=tokens, cost_micro_usd=cost)
        before = len(params.tries)
        try:
            return await call(params)
        except Exception as raised:  # noqa: BLE001 - whatever a client raises becomes a typed error
            raise status.as_error(raised) from None
        finally:
            tries = params.tries[before:]
            for number, made in enumerate(tries, start=1):
                self._record(made, retried=number < len(tries))
            if not tries:
                self._task.settle()

    def _record(self, made: ModelTry, *, retried: bool) -> None:
        """Records a try: the actual exchange, if the client has rewritten the request."""
        exchanges, last = list(made.exchanges), None
        if exchanges and _ends(exchanges[-1], made):
            last = exchanges.pop()
        for each in exchanges:
            text = each.text if each.reply is None else each.reply.text
            refused = Unavailable("no reply") if each.reply is None else ParsingError(each.refusal or "not read")
            self._record_call(made.model, each, error_json(refused, text), each.usage, retried=True)
        if last is not None:
            reply, text = last.reply or made.reply, last.text if last.reply is None else last.reply.text
        else:
            reply, text = made.reply, made.text
        if made.error is not None:
            response = error_json(status.as_error(made.error), text)
        else:
            assert reply is not None
            response = response_json(reply)
        usage = made.usage if last is None else last.usage
        self._record_call(made.model, last or made, response, usage, retried=retried)

    def _record_call(
        self, model: str, made: ModelTry | Exchange, response: dict[str, Any], usage: Usage | None, *, retried: bool
    ) -> None:
        state = get_context()
        origins = message_origins(made.request.messages, state.agent.system_prompt, state.run_id)
        self._task.record_model_call(
            model,
            request_json(model, made.request, origins, made.sent),
            response,
            started=made.started,
            seconds=made.seconds,
            usage=to_call_usage(usage),
            retried=retried,
            redacted=True,  # or full, as the mode says
        )

    @override
    def query_end(self, hook: HookContext) -> None:
        policies = self._task.publish_policies
        if policies and hook.value.strip():
            self.items = [Item(text, policy) for policy, text in wider_items(hook, policies)]

    @override
    def stream_chunk(self, chunk: StreamChunk, params: ModelParams) -> None:
        if chunk.thinking_delta:
            self._task.think(chunk.thinking_delta)
        if chunk.tool_call_delta is not None:
            self._tell_arguments(chunk.tool_call_delta)
        if chunk and params.tries and params.tries[-1].text and self._failed is not params.tries[-1]:
            self._failed = params.tries[-1]  # its text is not the answer: separate it from the next text
            self._task.write("\n\n")
        self._task.write(chunk)

    def _tell_arguments(self, delta: ToolCallDelta) -> None:
        state = get_context()
        call_id, name = self._written.get(delta.index, ("", ""))
        name = name or delta.name
        call_id = call_id or delta.id or call_id_of(state.current_iteration, delta.index + 1)
        self._written[delta.index] = call_id, name
        if name and delta.arguments_delta and name not in state.agent.sub_agents:
            self._task.tell_tool_arguments(call_id, name, delta.arguments_delta)

    @override
    def after_model(self, hook: HookContext) -> None:
        # A reply with tool calls is not the answer: separate its text from the next.
        assert hook.message is not None
        if hook.message.tool_calls:
            if hook.message.content:
                self._task.write("\n\n")
            self.attempt.set_checkpoint([*messages_since_query(hook), hook.message])

    @override
    def before_tool(self, hook: HookContext) -> None:
        if (call := hook.tool_call) is not None and call.name not in hook.agent.sub_agents:
            self._tool_starts[call.id] = (time.time(), time.monotonic())
            self._task.tell_tool_call(call.id, call.name, masked_arguments(call.arguments_json))

    @override
    def after_tool(self, hook: HookContext) -> None:
        call, result = hook.tool_call, hook.tool_result
        if call is None or result is None or call.id not in self._tool_starts:
            return
        started, started_monotonic = self._tool_starts.pop(call.id)
        arguments, response = tool_json(hook.arguments, result)
        seconds = time.monotonic() - started_monotonic
        self._task.record_tool_call(call.name, arguments, response, started=started, seconds=seconds, redacted=True)
        self._task.tell_tool_result(call.id, call.name, result.text, failed=not result.ok)


def _ends(exchange: Exchange, made: ModelTry) -> bool:
    """Whether the try ended with this exchange, and not with another client, such as a fallback's."""
    return made.reply is None or (exchange.reply is not None and exchange.reply.model == made.reply.model)


def messages_since_query(hook: HookContext) -> list[ChatMessage]:
    """Returns the messages of the history after the last query."""
    history = hook.state.history
    query = max((index for index, message in enumerate(history) if message.role == "user"), default=-1)
    return list(history[query + 1 :])


def with_context(messages: list[ChatMessage], items: list[MemoryItem], awareness: str) -> list[ChatMessage]:
    """Adds system messages after the system prompt: one per item, in order, then the dependencies of other roles."""
    extended = list(messages)
    if awareness:
        after_prompt = 1 if extended and extended[0].role == "system" else 0
        extended.insert(after_prompt, awareness_chat_message(awareness))
    return with_shared_context(extended, items)


def to_memory_item(item: ContextItem) -> MemoryItem:
    """Converts an item of a task's context."""
    return MemoryItem(
        source_id=item.role,
        content=described(item.proto.parts),
        timestamp=to_seconds(item.proto.publish_time),
        version=max(1, item.version),  # 0: straight from the run's journal, which has one answer per task
        policy=item.policy,
        metadata=item.metadata,
        task_id=item.proto.step_id,  # the answers of two steps of one role stand side by side
    )
