"""Handlers of roles that answer messages of other agents while they work."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from archon.agent.attempt import Handler
from archon.agent.task import TaskContext
from archon.errors import ArchonError, InvalidArgument, Unimplemented
from archon.status import as_error

if TYPE_CHECKING:
    from archon.types.message import Message

_log = logging.getLogger(__name__)

OnMessage = Callable[["Message", TaskContext], Awaitable[Any]]
"""Handles a message, beside the handler of the task. Its return value is the answer; None: there is none."""


def with_messages(handler: Handler, on_message: OnMessage, topics: tuple[str, ...]) -> Handler:
    """Returns a handler that passes each message to `on_message`, one after the other, while `handler` works. Its
    result waits for the message that is being handled. Raises InvalidArgument unless both are coroutine functions."""
    for given in (handler, on_message):
        if not inspect.iscoroutinefunction(given):
            name = getattr(given, "__name__", "the handler")
            raise InvalidArgument(f"{name} is not a coroutine function: messages are handled while the handler waits")

    @functools.wraps(handler)
    async def with_reader(task: TaskContext) -> Any:
        try:
            messages = task._messenger.handled(topics)  # before anything that the handler tells others
        except Unimplemented:
            return await handler(task)  # the caller of the task sends no messages
        is_idle = asyncio.Event()
        is_idle.set()
        reader = asyncio.create_task(_read(task, messages, on_message, is_idle), name=f"messages-{task.task_id}")
        try:
            result = await handler(task)
            await is_idle.wait()
            return result
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    return with_reader


async def _read(
    task: TaskContext, messages: AsyncIterator[Message], on_message: OnMessage, is_idle: asyncio.Event
) -> None:
    async for message in messages:
        is_idle.clear()
        try:
            await _handle(task, message, on_message)
        finally:
            is_idle.set()


async def _handle(task: TaskContext, message: Message, on_message: OnMessage) -> None:
    try:
        answer = await on_message(message, task)
        if answer is not None:
            await task.reply(message, answer)
    except Exception as error:  # noqa: BLE001 - a message must not end the task
        reason = as_error(error).message
        _log.warning("a message of %s could not be handled: %s", message.sender_id, reason)
        try:
            await task.reply(message, {"error": reason, "task_id": task.task_id}, type="error")
        except ArchonError as refused:
            _log.debug("the sender gets no answer: %s", refused)
