"""The handler of a role whose tasks are tasks of an A2A agent elsewhere."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

from a2a.types import a2a_pb2

from archon.agent import Answer, TaskContext, TaskRejected
from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    NotFound,
    OperationCancelled,
    Unavailable,
    UnknownFailure,
)
from archon.failure_kinds import RetryAdvice
from archon.federation.content import goal_of
from archon.federation.submission import budget_of
from archon.types.usage import COUNTS, Usage
from archon_services.agents.a2a.folded_task import FoldedTask
from archon_services.agents.a2a.questions import answer_to
from archon_services.agents.a2a.remote import RemoteAgent
from archon_services.common.a2a_keys import BUDGET, TIMEOUT, USAGE, budget_values, usage_from
from archon_services.common.a2a_parts import MESSAGE_ID, parts_to_a2a, struct

_log = logging.getLogger(__name__)

PATIENCE: Final = 60.0
"""Seconds for which an attempt waits for an agent that does not answer."""

CANCEL_PATIENCE: Final = 20.0
"""Seconds for which the cancellation of a task is tried."""

POLL: Final = 1.0
"""Seconds between two looks at a task of an agent that has no streams."""

MAX_POLL: Final = 30.0
"""Seconds between two looks at a task that waits for a person, after a while."""

CLOSE_TIMEOUT: Final = 5.0
MAX_CANCELLING: Final = 1_000
MAX_ROUNDS: Final = 50
"""Messages of one task, with those that answer its questions."""

_SPACE: Final = uuid.UUID("0d3c6a60-6f0e-5d7b-8b1d-4f6f3a2f1c77")
_PASSING: Final = (Unavailable, DeadlineExceeded)


class A2ARole:
    """Hands each task to an A2A agent, as one task there, which a later attempt finds again and goes on with.

    Deadline, budget, trace and questions to people cross, and so does a cancellation; a process that stops or is lost
    cancels nothing. Use it as an async context manager around its server.
    """

    def __init__(self, agent: RemoteAgent, *, patience: float = PATIENCE, poll: float = POLL) -> None:
        self._agent = agent
        self._patience = patience
        self._poll = poll
        self._background: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> A2ARole:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._background:
            late = (await asyncio.wait(self._background, timeout=CLOSE_TIMEOUT))[1]
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def handle(self, task: TaskContext) -> Answer:
        """Executes a task. Raises UnknownFailure if the agent has failed it, FailedPrecondition if it was rejected,
        OperationCancelled if it was cancelled there, and Unavailable if the agent does not answer for a while."""
        if task.plan_request is not None or task.exact:
            raise TaskRejected("an A2A agent makes no plans, and executes no tools, for a mesh")
        attempt = _Attempt(task, self._agent, self._patience, self._poll)
        try:
            return await attempt.run()
        except asyncio.CancelledError:
            if task.is_over:
                self._cancel_later(attempt.folded.task_id)
            raise
        except ArchonError as error:
            if error.retry is RetryAdvice.NEVER and not attempt.folded.ended:
                self._cancel_later(attempt.folded.task_id)
            raise

    def _cancel_later(self, task_id: str) -> None:
        """Cancels a task that nothing needs any more."""
        if not task_id or len(self._background) >= MAX_CANCELLING:
            return
        cancelling = asyncio.create_task(self._cancel(task_id), name="cancel a task of an A2A agent")
        self._background.add(cancelling)
        cancelling.add_done_callback(self._background.discard)

    async def _cancel(self, task_id: str) -> None:
        try:
            async with asyncio.timeout(CANCEL_PATIENCE):
                while True:
                    try:
                        await self._agent.cancel(task_id)
                        return
                    except _PASSING:
                        await asyncio.sleep(random.uniform(0.2, 1.0))
        except (ArchonError, TimeoutError) as error:
            _log.info("a task of an A2A agent was not cancelled: %s", error or "no answer in time")


class _Attempt:
    """One attempt at a task."""

    def __init__(self, task: TaskContext, agent: RemoteAgent, patience: float, poll: float) -> None:
        self._task = task
        self._agent = agent
        self._patience = patience
        self._poll = poll
        self._key = task.idempotency_key or f"{task.run_id}/{task.task_id}"
        if task.refusal:
            self._key += f"/{uuid.uuid5(_SPACE, task.refusal)}"
        self._counted = Usage()
        self.folded = FoldedTask(task.write)

    async def run(self) -> Answer:
        if known := self._checkpointed():
            self.folded.apply_task(await self._agent.get(known))
        else:
            await self._follow(self._message(), self._key)
        for number in range(MAX_ROUNDS):
            while not self.folded.settled:
                await self._resume()
            self._count()
            if self.folded.ended:
                return self._answer()
            if (message := await self._asked()) is not None:
                await self._follow(a2a_pb2.SendMessageRequest(message=message), f"{self._key}/{number}")
        raise FailedPrecondition(f"the agent has asked more than {MAX_ROUNDS} questions", retry=RetryAdvice.NEVER)

    async def _asked(self) -> a2a_pb2.Message | None:
        """Returns the answer of a person; None if the agent needs it no longer: it was answered elsewhere, or the task
        has ended."""
        asking = asyncio.create_task(answer_to(self._task, self.folded), name="question of an A2A agent")
        watching = asyncio.create_task(self._answered_elsewhere(), name="task of an A2A agent")
        try:
            await asyncio.wait((asking, watching), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            watching.result()
            return None
        finally:
            for each in (asking, watching):
                each.cancel()
            await asyncio.wait((asking, watching))

    async def _answered_elsewhere(self) -> None:
        """Returns once the task does not wait for this answer any more. Waits on while the agent does not answer."""
        known = self.folded.question.message_id
        pause = self._poll

        def left() -> bool:
            return not self.folded.waits or self.folded.question.message_id != known

        while not left():
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_POLL)
            try:
                await self._read(self._agent.subscribe(self.folded.task_id), left)
            except (FailedPrecondition, NotFound):
                self.folded.apply_task(await self._reached())
            except _PASSING:
                pass

    def _message(self) -> a2a_pb2.SendMessageRequest:
        task = self._task
        message = a2a_pb2.Message(role=a2a_pb2.Role.ROLE_USER, parts=parts_to_a2a(goal_of(task)))
        if task.session_id:
            message.context_id = str(uuid.uuid5(_SPACE, f"{task.role}/{task.session_id}"))
        own = ("dev.archon", "archon.")
        metadata: dict[str, Any] = {key: text for key, text in task.metadata.items() if not key.startswith(own)}
        metadata.pop(MESSAGE_ID, None)
        if (left := task.remaining()) is not None:
            metadata[TIMEOUT] = max(0.001, min(left, 86_400.0))
        if (budget := budget_of(task)) is not None and (limits := budget_values(budget)):
            metadata[BUDGET] = limits
        return a2a_pb2.SendMessageRequest(message=message, metadata=struct(metadata))

    async def _follow(self, request: a2a_pb2.SendMessageRequest, key: str) -> None:
        """Sends a message until the agent has taken it. Its id is the same in each attempt, so that an agent that knows
        it does nothing twice."""
        request.message.message_id = str(uuid.uuid5(_SPACE, key))
        self.folded.expect()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience
        while True:
            try:
                await self._read(self._agent.send(request))
                return
            except _PASSING:
                if self.folded.answered:
                    return  # the task is known: it is resumed
                if loop.time() > end:
                    raise
            self._agent.forget()
            await asyncio.sleep(random.uniform(0.2, 1.0))

    async def _resume(self) -> None:
        """Follows the task by a stream, or by looks at it if the agent has no streams."""
        try:
            await self._read(self._agent.subscribe(self.folded.task_id))
        except (*_PASSING, FailedPrecondition, NotFound):
            self.folded.apply_task(await self._reached())
        if not self.folded.settled:
            await asyncio.sleep(self._poll)

    async def _read(
        self, events: AsyncGenerator[a2a_pb2.StreamResponse, None], done: Callable[[], bool] | None = None
    ) -> None:
        async with aclosing(events):
            async for event in events:
                had = self.folded.task_id
                self.folded.apply(event)
                if self.folded.task_id and not had:
                    self._task.save(json.dumps({"key": self._key, "task": self.folded.task_id}).encode())
                if self.folded.settled if done is None else done():
                    return

    async def _reached(self) -> a2a_pb2.Task:
        """Returns the task as it is. Raises the error of the agent if that does not answer for a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience
        while True:
            try:
                return await self._agent.get(self.folded.task_id)
            except _PASSING:
                if loop.time() > end:
                    raise
            await asyncio.sleep(random.uniform(0.2, 1.0))

    def _checkpointed(self) -> str:
        try:
            saved = json.loads(self._task.checkpoint or b"{}")
            return str(saved["task"]) if saved["key"] == self._key else ""
        except (ValueError, KeyError, TypeError):
            return ""

    def _count(self) -> None:
        total = usage_from(self.folded.metadata.get(USAGE))
        more = {name: max(0, getattr(total, name) - getattr(self._counted, name)) for name in COUNTS}
        self._counted = total
        if any(more.values()):
            self._task.add_usage(Usage(**more))

    def _answer(self) -> Answer:
        folded, states = self.folded, a2a_pb2.TaskState
        metadata = {"org.a2a-protocol/task-id": folded.task_id, "org.a2a-protocol/agent": self._agent.options.url}
        text = folded.status_text or "it gave no reason"
        if folded.state in (states.TASK_STATE_COMPLETED, states.TASK_STATE_UNSPECIFIED):
            return Answer(parts=folded.answer(), metadata=metadata)
        kinds: dict[int, tuple[type[ArchonError], str]] = {
            states.TASK_STATE_CANCELED: (OperationCancelled, "was cancelled"),
            states.TASK_STATE_REJECTED: (FailedPrecondition, "was rejected"),
        }
        failed: tuple[type[ArchonError], str] = (UnknownFailure, "failed")
        error, verb = kinds.get(folded.state, failed)
        raise error(
            f"the task {folded.task_id} of the agent at {self._agent.options.url} {verb}: {text}",
            metadata=metadata,
            retry=RetryAdvice.NEVER,
        )
