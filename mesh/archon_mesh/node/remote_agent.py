"""A role of the mesh as a sub-agent, with the interface and the events of a local agent."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from archon.api.common.v1 import common_pb2
from archon.errors import FailedPrecondition, Unavailable
from archon.status import from_failure
from archon.surrogates import without_surrogates
from archon.types.part import to_messages
from archon.wire import described
from archon_mesh.agent.events import types as events
from archon_mesh.agent.events.emit import THINKING, MessageEmitter, emit_tool_call, emit_tool_result
from archon_mesh.agent.ids import new_id
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.node.task_hooks import TaskAttempt, current_attempt
from archon_mesh.tools.call_position import get_call_position

if TYPE_CHECKING:
    from archon.api.orchestrator.v1 import run_pb2
    from archon.client import Client, RunOptions

MAX_WRITTEN: Final = 100
"""Tool calls of a remote agent that are shown piece by piece at a time."""

MAX_ARGUMENTS: Final = 1024 * 1024
"""Characters of a call's arguments that are shown piece by piece."""


class RemoteAgent:
    """The role `name` of the mesh, for `sub_agents`.

    Within a task of the mesh, a call is a delegation of that task: it is memoised, and part of the task's run.
    Elsewhere it is a run of its own, submitted to `orchestrator` (host:port), by default ARCHON_ORCHESTRATOR.
    `timeout` limits one call, in seconds; None uses the default of the mesh.
    """

    has_own_timeout = True
    """A call may wait for a person for days: the mesh limits it, not the caller."""

    def __init__(
        self, name: str, *, description: str = "", orchestrator: str = "", timeout: float | None = None
    ) -> None:
        self.name = name
        self.description = description
        self._orchestrator = orchestrator
        self._timeout = timeout
        self._client: Client | None = None

    async def call(self, message: str, caller: AgentState, *, stateless: bool) -> str:
        run_events = _RunEvents(self.name, caller)
        await run_events.start()
        try:
            attempt = current_attempt()
            if attempt is None:
                answer = await self._submit(message, run_events)
            else:
                answer = await self._delegate(message, attempt)
        except BaseException as error:
            await run_events.fail(error)
            raise
        await run_events.finish(answer)
        return answer

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _delegate(self, message: str, attempt: TaskAttempt) -> str:
        # The same call at the same position is the same delegation in every attempt.
        task_text, position = without_surrogates(message), get_call_position()
        digest = hashlib.sha256(f"{self.name}:{task_text}".encode()).hexdigest()[:32]
        delegated = await attempt.task.delegate(
            task_text,
            role=self.name,
            memo_key=f"{position.iteration}.{position.number}.{digest}",
            timeout=self._timeout,
            checkpoint=attempt.take_checkpoint(),
        )
        return described(to_messages(delegated.parts)) or delegated.text

    async def _submit(self, message: str, run_events: _RunEvents) -> str:
        target = self._orchestrator or os.environ.get("ARCHON_ORCHESTRATOR", "")
        if not target:
            raise FailedPrecondition(
                f"no orchestrator to reach the role {self.name}: pass `orchestrator`, or set ARCHON_ORCHESTRATOR"
            )
        # With the stubs of the orchestrator it takes 0.8 MB, and most agents have no sub-agent of the mesh.
        from archon.client import Client, RunOptions

        self._client = self._client or Client(target)
        options = RunOptions(roles=[self.name], strategy="agent", timeout=self._timeout)
        answer, has_ended, run_id = "", False, ""
        try:
            async with aclosing(_follow_run(self._client, message, options)) as stream:
                async for event in stream:
                    run_id = event.run_id or run_id
                    match event.WhichOneof("event"):
                        case "text_delta" if event.text_delta.role == self.name:
                            await run_events.text(event.text_delta.text)
                        case "thinking_delta" if event.thinking_delta.role == self.name:
                            await run_events.think(event.thinking_delta.text)
                        case "tool_arguments_delta" if event.tool_arguments_delta.role == self.name:
                            await run_events.tool_arguments(event.tool_arguments_delta)
                        case "tool_event" if event.tool_event.role == self.name:
                            await run_events.tool(event.tool_event)
                        case "result" if event.result.role == self.name:
                            answer = described(event.result.output)
                        case "run_state":
                            has_ended = True
                            if event.run_state.state != common_pb2.TASK_STATE_COMPLETED:
                                raise from_failure(event.run_state.failure)
        finally:
            if run_id and not has_ended:
                await _cancel_run(self._client, run_id)
        return answer


class _RunEvents:
    """Emits the events of the remote run as a local sub-agent would."""

    def __init__(self, role: str, caller: AgentState) -> None:
        self._emitter = caller.emitter
        self._thread_id = caller.thread_id
        self._run_fields: dict[str, Any] = caller.event_fields() | {
            "run_id": new_id(),
            "parent_run_id": caller.run_id,
            "agent_name": role,
        }
        self._message = MessageEmitter(self._emitter, self._run_fields)
        self._thinking = MessageEmitter(self._emitter, self._run_fields, THINKING)
        self._written: dict[str, str] = {}
        """The arguments so far of the calls that are emitted piece by piece."""

    async def start(self) -> None:
        if self._emitter.handlers:
            await self._emitter.emit(events.RunStarted(thread_id=self._thread_id, **self._run_fields))

    async def text(self, delta: str) -> None:
        await self._thinking.end()
        await self._message.write(delta)

    async def think(self, delta: str) -> None:
        await self._message.end()
        await self._thinking.write(delta)

    async def tool_arguments(self, delta: run_pb2.ToolArgumentsDelta) -> None:
        """Emits the start of a tool call that the remote agent's model writes, or a piece of its arguments."""
        await self._thinking.end()
        await self._message.end()
        if not self._emitter.handlers:
            return
        written = self._written.get(delta.call_id)
        if written is None:
            if len(self._written) >= MAX_WRITTEN:
                return
            start = events.ToolCallStart(tool_call_id=delta.call_id, tool_call_name=delta.tool_name, **self._run_fields)
            await self._emitter.emit(start)
        if len(written or "") > MAX_ARGUMENTS:
            return
        self._written[delta.call_id] = (written or "") + delta.text
        await self._emitter.emit(events.ToolCallArgs(tool_call_id=delta.call_id, delta=delta.text, **self._run_fields))

    async def _end_written(self, call_id: str, arguments_json: str = "") -> None:
        """Ends a call that was emitted piece by piece. Emits the rest of its arguments, if pieces were dropped at the
        end."""
        written = self._written.pop(call_id)
        if (rest := arguments_json.removeprefix(written)) and rest != arguments_json:
            await self._emitter.emit(events.ToolCallArgs(tool_call_id=call_id, delta=rest, **self._run_fields))
        await self._emitter.emit(events.ToolCallEnd(tool_call_id=call_id, **self._run_fields))

    async def tool(self, activity: run_pb2.ToolActivity) -> None:
        """Emits a tool call of the remote agent, or its result."""
        await self._thinking.end()
        await self._message.end()
        if activity.call_id in self._written:
            await self._end_written(activity.call_id, activity.arguments_json)
            return
        if activity.arguments_json or not activity.result_json:
            await emit_tool_call(
                self._emitter, self._run_fields, activity.call_id, activity.tool_name, activity.arguments_json
            )
        else:
            status = "error" if activity.failed else "success"
            await emit_tool_result(self._emitter, self._run_fields, activity.call_id, activity.result_json, status)

    async def finish(self, answer: str) -> None:
        """Ends the run. Emits the whole answer if no part of it was streamed."""
        await self._end_all_written()
        await self._thinking.end()
        if not self._message.has_started:
            await self._message.write(answer)
        await self._message.end()
        if self._emitter.handlers:
            await self._emitter.emit(events.RunFinished(result=answer, thread_id=self._thread_id, **self._run_fields))

    async def _end_all_written(self) -> None:
        """Ends the calls that were written, and not made."""
        for call_id in list(self._written):
            await self._end_written(call_id)

    async def fail(self, error: BaseException) -> None:
        await self._end_all_written()
        await self._thinking.end()
        await self._message.end()
        if self._emitter.handlers:
            code = getattr(error, "code", type(error).__name__)
            await self._emitter.emit(events.RunError(message=str(error) or code, code=code, **self._run_fields))


async def _follow_run(client: Client, message: str, options: RunOptions) -> AsyncGenerator[run_pb2.RunEvent, None]:
    """Submits a run and yields its events from the first on. If the stream breaks, a watch yields the remaining events.

    A watch alone would miss the text that is streamed before it starts.
    """
    from archon.api.orchestrator.v1 import run_pb2

    last_seq = 0
    async with client.converse() as conversation:
        run = await conversation.submit(message, **options)
        yield run_pb2.RunEvent(run_id=run.run_id)
        try:
            async for event in conversation:
                last_seq = event.seq or last_seq
                yield event.proto
                if event.type == "run_state":
                    return
        except Unavailable:
            pass
    async with aclosing(client.watch(run.run_id, last_seq)) as remaining:
        async for event in remaining:
            yield event.proto


async def _cancel_run(client: Client, run_id: str) -> None:
    cancel = asyncio.ensure_future(client.cancel(run_id, "its caller was cancelled"))
    await asyncio.wait([cancel], timeout=2.0)
    cancel.cancel()
