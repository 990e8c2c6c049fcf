"""One model call: the hooks before, around and after it, retries, and the events of its text."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from archon import context
from archon.errors import ArchonError, Unavailable
from archon.telemetry import metrics
from archon_mesh.agent.events.emit import THINKING, MessageEmitter, ToolCallEmitter, call_id_of
from archon_mesh.agent.hooks.context import HookContext, ModelParams, ModelTry
from archon_mesh.agent.hooks.middleware import StreamChunk
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.loop import model_metrics
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.call_log import log_model_call
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import deadline
from archon_mesh.llm.base import DECLINED, LENGTH, ModelChunk, ModelClient, ModelReply, ModelRequest, Usage
from archon_mesh.llm.chunks import noted, whole_reply
from archon_mesh.llm.exchanges import Exchange, Noted, noting
from archon_mesh.llm.prices import usage_of_failed
from archon_mesh.llm.retry import WITHIN, is_transient, pause_before
from archon_mesh.llm.text_format.errors import ParsingError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """The model's message. `retry`: a hook wants another reply; `final`: a hook ended the run with this message;
    `refused`: the model declined, or its provider withheld the reply; `cut`: the reply ended at its length limit."""

    message: ChatMessage
    retry: bool = False
    final: bool = False
    refused: bool = False
    cut: bool = False


class ModelCaller:
    """Makes the model call of one iteration."""

    def __init__(self, state: AgentState, hooks: HookRunner) -> None:
        self._state = state
        self._hooks = hooks

    async def call(self, params: ModelParams) -> ModelTurn:
        """Calls the model. Raises the model's errors, HookError, and the errors of hooks that fail the run."""
        state, hooks = self._state, self._hooks
        if HookEvent.BEFORE_MODEL in hooks:
            outcome = await hooks.run(HookContext(HookEvent.BEFORE_MODEL, state.agent, state, params=params))
            if outcome.decision is HookDecision.STOP:
                return ModelTurn(_as_message(outcome.value), final=True)
        reply = await hooks.wrap_model_call(self._generate)(params)
        tool_calls = _with_ids(reply.tool_calls, state.current_iteration)
        message = replace(reply.message(), tool_calls=tool_calls)
        if HookEvent.AFTER_MODEL in hooks:
            outcome = await hooks.run(
                HookContext(
                    HookEvent.AFTER_MODEL, state.agent, state, params=params, message=message, value=message.content
                )
            )
            if outcome.decision is HookDecision.RETRY:
                return ModelTurn(message, retry=True)
            if outcome.decision is HookDecision.STOP:
                return ModelTurn(_as_message(outcome.value), final=True)
            message = outcome.value if outcome.value is not None else message
        return ModelTurn(message, refused=reply.finish_reason == DECLINED, cut=reply.finish_reason == LENGTH)

    async def _generate(self, params: ModelParams) -> ModelReply:
        """Calls the model, again after an error that may pass; if it keeps failing, the fallback model."""
        agent = self._state.agent
        try:
            return await self._with_retries(agent.model, params)
        except ArchonError as error:
            fallback = agent.fallback_model
            if fallback is None or not is_transient(error):
                raise
            _log.warning("%s: %s; %s answers instead", agent.model.model, error, fallback.model)
            return await self._with_retries(fallback, params)

    async def _with_retries(self, model: ModelClient, params: ModelParams) -> ModelReply:
        """Raises the error of the last try."""
        retries = params.retries
        last_begin = asyncio.get_running_loop().time() + WITHIN
        for retry in range(1, retries + 1):
            try:
                return await self._noted(model, params)
            except ArchonError as error:
                if not is_transient(error) or not _may_wait(pause := pause_before(retry, error), last_begin):
                    raise
                _log.warning("%s: %s; retry %d of %d in %.1f s", model.model, error, retry, retries, pause)
            await asyncio.sleep(pause)
        return await self._noted(model, params)

    async def _noted(self, model: ModelClient, params: ModelParams) -> ModelReply:
        """Calls the model once, and adds the try to the call's tries."""
        request, text, written = params.request(), list[str](), list[str]()
        started, started_monotonic = time.time(), time.monotonic()
        requests = Noted()

        def note(reply: ModelReply | None = None, error: BaseException | None = None) -> None:
            seconds = time.monotonic() - started_monotonic
            unreadable = error.reply if isinstance(error, ParsingError) else None
            if (known := reply or unreadable) is not None:
                usage: Usage | None = known.usage
            else:
                usage = _usage_of_failed(model, request, "".join(written), requests.exchanges)
            said = unreadable.text if unreadable is not None else "".join(text)
            if (recorder := metrics.recorder()) is not None:
                model_metrics.record_call(recorder, self._state.agent, model, seconds, usage, error)
            exchanges, sent = requests.exchanges, requests.sent
            params.tries.append(
                ModelTry(model.model, request, started, seconds, reply, error, said, usage, exchanges, sent)
            )
            name = model.model if reply is None else reply.model or model.model
            log_model_call(name, seconds, agent=self._state.agent_name, usage=usage, error=error)

        try:
            with noting(requests):
                reply = await self._try(params, noted(deadline.stream(model, request), written), model, text)
        except BaseException as error:
            note(error=error)
            raise
        note(reply)
        return reply

    async def _try(
        self, params: ModelParams, stream: AsyncGenerator[ModelChunk], model: ModelClient, text: list[str]
    ) -> ModelReply:
        """Passes the stream on if there are event handlers or hooks for its text, and adds its parts to `text`. If the
        stream breaks off, its text is a message of its own, and the next try begins another."""
        state = self._state
        if not state.emitter.handlers and not self._hooks.streams:
            return await whole_reply(stream)
        run_fields = state.event_fields()
        text_message = MessageEmitter(state.emitter, run_fields)
        thinking_message = MessageEmitter(state.emitter, run_fields, THINKING)
        tool_calls = ToolCallEmitter(state.emitter, run_fields, state.current_iteration)
        reply: ModelReply | None = None
        recorder, began = metrics.recorder(), time.monotonic()
        try:
            async with aclosing(stream) as chunks:
                async for chunk in chunks:
                    if recorder is not None:
                        model_metrics.record_first_chunk(recorder, state.agent, model, time.monotonic() - began)
                        recorder = None
                    if chunk.thinking_delta:
                        thinking_chunk = StreamChunk.of_thinking(chunk.thinking_delta)
                        await self._hooks.run_chunk_hooks(thinking_chunk, params, self._chunk_context)
                        await thinking_message.write(chunk.thinking_delta)
                    if chunk.text_delta:
                        await thinking_message.end()
                        text_chunk = StreamChunk(chunk.text_delta)
                        delta = await self._hooks.run_chunk_hooks(text_chunk, params, self._chunk_context)
                        text.append(delta)
                        await text_message.write(delta)
                    if chunk.tool_call_delta is not None:
                        await thinking_message.end()
                        await text_message.end()
                        call_chunk = StreamChunk.of_tool_call(chunk.tool_call_delta)
                        await self._hooks.run_chunk_hooks(call_chunk, params, self._chunk_context)
                        await tool_calls.write(chunk.tool_call_delta)
                    reply = chunk.reply or reply
        finally:
            await thinking_message.end()
            await text_message.end()
            await tool_calls.end(complete=reply is not None)
        if reply is None:
            raise Unavailable("the model's stream ended before the reply was complete")
        if text and self._hooks.streams:
            reply = replace(reply, text="".join(text))
        if not text and reply.text:
            await text_message.write(reply.text)
            await text_message.end()
        return reply

    def _chunk_context(self) -> HookContext:
        return HookContext(HookEvent.STREAM_CHUNK, self._state.agent, self._state)


def _usage_of_failed(
    model: ModelClient, request: ModelRequest, written: str, exchanges: list[Exchange]
) -> Usage | None:
    """Estimates the usage of a try that failed: of the exchange that broke off, plus the usage of the others."""
    if not exchanges:
        return usage_of_failed(model, request, written)
    last = exchanges[-1]
    if last.usage is None:
        last.usage = usage_of_failed(model, last.request, last.text or (written if len(exchanges) == 1 else ""))
    usages = [each.usage for each in exchanges if each.usage is not None]
    return sum(usages, Usage(0, 0)) if usages else None


def _may_wait(seconds: float, last_begin: float) -> bool:
    """Whether a try after a pause begins in time, and before the deadline of the task."""
    remaining = context.current().remaining()
    in_time = asyncio.get_running_loop().time() + seconds < last_begin
    return in_time and (remaining is None or seconds < remaining)


def _with_ids(calls: tuple[ToolCall, ...], iteration: int) -> tuple[ToolCall, ...]:
    """Adds missing ids: some servers omit them, but every tool result must name its call."""
    if all(call.id for call in calls):
        return calls
    return tuple(
        call if call.id else replace(call, id=call_id_of(iteration, number)) for number, call in enumerate(calls, 1)
    )


def _as_message(value: str | ChatMessage) -> ChatMessage:
    return value if isinstance(value, ChatMessage) else ChatMessage("assistant", value)
