"""Emits the events of a run: messages chunk by chunk, tool calls and their results.

Local runs and runs of remote agents use the same functions, so a front end sees no difference.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from archon_mesh.agent.events import types as events
from archon_mesh.agent.events.types import AgentEvent, EventHandler
from archon_mesh.agent.ids import new_id
from archon_mesh.llm.base import ToolCallDelta
from archon_mesh.tools.image import Image

_log = logging.getLogger(__name__)

TEXT: Final = (events.TextMessageStart, events.TextMessageContent, events.TextMessageEnd)
THINKING: Final = (
    events.ThinkingTextMessageStart,
    events.ThinkingTextMessageContent,
    events.ThinkingTextMessageEnd,
)


class Emitter:
    """Delivers events to all handlers in order. A handler that raises is logged by name and does not affect the run."""

    def __init__(self, handlers: Iterable[EventHandler] = ()) -> None:
        self.handlers = list(handlers)
        self.streamed_calls: set[tuple[str, str]] = set()
        """Run and id of the tool calls whose events were emitted while the reply was streamed."""

    async def emit(self, event: AgentEvent) -> None:
        """Returns when all handlers have processed the event."""
        for handler in self.handlers:
            try:
                result = handler(event)
                if inspect.isawaitable(result):
                    await result
            except (Exception, SystemExit) as error:  # noqa: BLE001 - an event handler must not fail the run
                name = getattr(handler, "__qualname__", type(handler).__name__)
                _log.exception("event handler %s raised %s on %s", name, type(error).__name__, event.type)


class MessageEmitter:
    """Emits messages of a run chunk by chunk; the first chunk starts a message.

    `run_fields` are the fields that every event of the run carries; `event_types` are the types of the start, content
    and end events.
    """

    def __init__(self, emitter: Emitter, run_fields: dict[str, Any], event_types: tuple[Any, Any, Any] = TEXT) -> None:
        self._emitter = emitter
        self._run_fields = run_fields
        self._start, self._content, self._end = event_types
        self._message_id = ""
        self.has_started = False
        """Whether any chunk was emitted so far."""

    async def write(self, text: str) -> None:
        """Emits a chunk. Does nothing if the text is empty or there are no handlers."""
        if not self._emitter.handlers or not text:
            return
        if not self._message_id:
            self._message_id, self.has_started = new_id(), True
            await self._emitter.emit(self._start(message_id=self._message_id, **self._run_fields))
        await self._emitter.emit(self._content(message_id=self._message_id, delta=text, **self._run_fields))

    async def end(self) -> None:
        """Ends the message, if one has started; the next chunk starts another."""
        if self._message_id:
            message_id, self._message_id = self._message_id, ""
            await self._emitter.emit(self._end(message_id=message_id, **self._run_fields))


def call_id_of(iteration: int, number: int) -> str:
    """Returns the id of a tool call for which the model gave none; `number` counts the calls of a reply from 1."""
    return f"call_{iteration}_{number}"


@dataclass(slots=True)
class _OpenCall:
    call_id: str
    arguments: str = ""
    """Arguments that came before the name."""
    has_started: bool = False


class ToolCallEmitter:
    """Emits the tool calls of one streamed reply piece by piece."""

    def __init__(self, emitter: Emitter, run_fields: dict[str, Any], iteration: int) -> None:
        self._emitter = emitter
        self._run_fields = run_fields
        self._iteration = iteration
        self._calls: dict[int, _OpenCall] = {}

    async def write(self, delta: ToolCallDelta) -> None:
        """Emits the start of a call with its name, then its arguments. Does nothing if there are no handlers."""
        if not self._emitter.handlers:
            return
        call = self._calls.get(delta.index)
        if call is None:
            call = _OpenCall(delta.id or call_id_of(self._iteration, delta.index + 1))
            self._calls[delta.index] = call
        call.arguments += delta.arguments_delta
        if delta.name and not call.has_started:
            call.has_started = True
            start = events.ToolCallStart(tool_call_id=call.call_id, tool_call_name=delta.name, **self._run_fields)
            await self._emitter.emit(start)
        if call.has_started and call.arguments:
            arguments, call.arguments = call.arguments, ""
            await self._emitter.emit(
                events.ToolCallArgs(tool_call_id=call.call_id, delta=arguments, **self._run_fields)
            )

    async def end(self, *, complete: bool) -> None:
        """Ends all calls. If the reply is not complete, they are not made."""
        for call in self._calls.values():
            if call.has_started:
                await self._emitter.emit(events.ToolCallEnd(tool_call_id=call.call_id, **self._run_fields))
                if complete:
                    self._emitter.streamed_calls.add((str(self._run_fields["run_id"]), call.call_id))
        self._calls.clear()


async def emit_tool_call(
    emitter: Emitter, run_fields: dict[str, Any], call_id: str, name: str, arguments_json: str
) -> None:
    """Emits the events of a tool call, unless they were emitted while the reply was streamed."""
    if not emitter.handlers:
        return
    if (streamed := (str(run_fields["run_id"]), call_id)) in emitter.streamed_calls:
        emitter.streamed_calls.discard(streamed)
        return
    call_fields = {"tool_call_id": call_id, **run_fields}
    await emitter.emit(events.ToolCallStart(tool_call_name=name, **call_fields))
    if arguments_json:
        await emitter.emit(events.ToolCallArgs(delta=arguments_json, **call_fields))
    await emitter.emit(events.ToolCallEnd(**call_fields))


async def emit_tool_result(
    emitter: Emitter, run_fields: dict[str, Any], call_id: str, text: str, status: str, content: object = None
) -> None:
    """Emits the result of a tool call, and an image message for each image in its content."""
    if not emitter.handlers:
        return
    await emitter.emit(
        events.ToolCallResult(tool_call_id=call_id, message_id=new_id(), content=text, status=status, **run_fields)
    )
    for image in Image.among(content):
        message_id = new_id()
        await emitter.emit(events.ImageMessageStart(message_id=message_id, media_type=image.media_type, **run_fields))
        await emitter.emit(events.ImageMessageContent(message_id=message_id, delta=image.data, **run_fields))
        await emitter.emit(events.ImageMessageEnd(message_id=message_id, **run_fields))
