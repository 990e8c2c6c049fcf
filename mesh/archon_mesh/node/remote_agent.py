"""A role somewhere in the mesh as a sub-agent: whoever calls it can't tell it from an agent of its own process."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client, submit_request
from archon.errors import FailedPrecondition, Unavailable
from archon.status import from_failure
from archon.wire import without_surrogates
from archon_mesh.agent.events import types as events
from archon_mesh.agent.events.emit import Message, of_run, tell_call, tell_result
from archon_mesh.agent.state.agent_state import AgentState, get_place, new_id
from archon_mesh.node.task_hooks import Attempt, current_attempt


class MeshRole:
    """`name` is the role; see `mesh_role`."""

    def __init__(self, name: str, description: str = "", orchestrator: str = "", timeout: float | None = None) -> None:
        self.name = name
        self.description = description
        self._orchestrator = orchestrator
        self._timeout = timeout
        self._client: Client | None = None

    async def call(self, message: str, caller: AgentState, *, stateless: bool) -> str:
        """See Callee. Within a task of the mesh it is a delegation of that: remembered, and part of its run. Elsewhere
        it is a run of its own."""
        told = _Told(self.name, caller)
        await told.begin()
        try:
            attempt = current_attempt()
            answer = await (self._run(message, told) if attempt is None else self._delegate(message, attempt))
        except BaseException as error:
            await told.fail(error)
            raise
        await told.finish(answer)
        return answer

    async def close(self) -> None:
        """See Callee."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _delegate(self, message: str, attempt: Attempt) -> str:
        """The same call in the same place of the conversation is the same delegation, in every attempt."""
        wanted, place = without_surrogates(message), get_place()
        digest = hashlib.sha256(f"{self.name}:{wanted}".encode()).hexdigest()[:32]
        answered = await attempt.task.delegate(
            wanted,
            role=self.name,
            memo_key=f"{place.iteration}.{place.number}.{digest}",
            timeout=self._timeout,
            checkpoint=attempt.take_checkpoint(),
        )
        return answered.text

    async def _run(self, message: str, told: _Told) -> str:
        target = self._orchestrator or os.environ.get("ARCHON_ORCHESTRATOR", "")
        if not target:
            raise FailedPrecondition(
                f"no orchestrator is known through which the role {self.name} could be reached: "
                "name one, or set ARCHON_ORCHESTRATOR"
            )
        self._client = self._client or Client(target)
        asked = submit_request(message, roles=[self.name], strategy="agent", timeout=self._timeout)
        answer, ended, run_id = "", False, ""
        try:
            async with aclosing(_followed(self._client, asked)) as stream:
                async for event in stream:
                    run_id = event.run_id or run_id
                    match event.WhichOneof("event"):
                        case "text_delta" if event.text_delta.role == self.name:
                            await told.text(event.text_delta.text)
                        case "tool_event" if event.tool_event.role == self.name:
                            await told.tool(event.tool_event)
                        case "result" if event.result.role == self.name:
                            answer = _text_of(event.result)
                        case "run_state":
                            ended = True
                            if event.run_state.state != common_pb2.TASK_STATE_COMPLETED:
                                raise from_failure(event.run_state.failure)
        finally:
            if run_id and not ended:
                await _cancelled(self._client, run_id)
        return answer


def mesh_role(name: str, *, description: str = "", orchestrator: str = "", timeout: float | None = None) -> MeshRole:
    """A role of the mesh for `sub_agents`. `orchestrator` (host:port) is needed only where the agent isn't itself at
    work on a task of the mesh; ARCHON_ORCHESTRATOR where empty. `timeout` of one call in seconds, the mesh's own where
    None."""
    return MeshRole(name, description, orchestrator, timeout)


class _Told:
    """The events of its run, as an agent here has them."""

    def __init__(self, role: str, caller: AgentState) -> None:
        self._emitter = caller.emitter
        self._thread = caller.thread_id
        self._about: dict[str, Any] = of_run(caller) | {
            "run_id": new_id(),
            "parent_run_id": caller.run_id,
            "agent_name": role,
        }
        self._message = Message(self._emitter, self._about)

    async def begin(self) -> None:
        if self._emitter.listeners:
            await self._emitter.emit(events.RunStarted(thread_id=self._thread, **self._about))

    async def text(self, piece: str) -> None:
        await self._message.text(piece)

    async def whole(self, answer: str) -> None:
        """The answer, where nothing of it came before."""
        if not self._message.begun:
            await self._message.text(answer)
        await self._message.end()

    async def tool(self, activity: run_pb2.ToolActivity) -> None:
        """A tool of its own is called, or has answered."""
        await self._message.end()
        said, about = activity, (self._emitter, self._about, activity.call_id)
        if said.arguments_json or not said.result_json:
            await tell_call(*about, said.tool_name, said.arguments_json)
        else:
            await tell_result(*about, said.result_json, "error" if said.failed else "success")

    async def finish(self, answer: str) -> None:
        await self.whole(answer)
        if self._emitter.listeners:
            await self._emitter.emit(events.RunFinished(result=answer, thread_id=self._thread, **self._about))

    async def fail(self, error: BaseException) -> None:
        await self._message.end()
        if self._emitter.listeners:
            code = getattr(error, "code", type(error).__name__)
            await self._emitter.emit(events.RunError(message=str(error) or code, code=code, **self._about))


async def _followed(client: Client, asked: pb.SubmitRunRequest) -> AsyncGenerator[run_pb2.RunEvent, None]:
    """A run's events, followed from the moment in which it is taken on: who asks to watch only then misses what passes.
    Where the stream breaks a watch goes on after the last event."""
    seen = 0
    async with client.converse() as conversation:
        run = await conversation.submit(asked)
        yield run_pb2.RunEvent(run_id=run.run_id)
        try:
            async for event in conversation:
                seen = event.seq or seen
                yield event
                if event.HasField("run_state"):
                    return
        except Unavailable:
            pass
    async with aclosing(client.watch(run.run_id, seen)) as rest:
        async for event in rest:
            yield event


async def _cancelled(client: Client, run_id: str) -> None:
    """Nobody waits for it any more."""
    cancel = asyncio.ensure_future(client.cancel(run_id, "its caller was cancelled"))
    await asyncio.wait([cancel], timeout=2.0)
    cancel.cancel()


def _text_of(result: run_pb2.ResultReceived) -> str:
    return "\n\n".join(part.text for part in result.output if part.WhichOneof("content") == "text")
