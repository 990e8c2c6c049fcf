"""One attempt at a task as its agent holds it: the handler while it runs, then the result until that is acked."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from archon import context, status
from archon.agent.pending_calls import Questions
from archon.agent.records import without_payload
from archon.agent.result import to_result
from archon.agent.task import TaskContext
from archon.agent.values import TaskRejected
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, DeadlineExceeded, FrameTooLarge, Internal, OperationCancelled
from archon.frames import Channel, FrameQueue, agent_content
from archon.threads import on_thread

if TYPE_CHECKING:
    from archon.agent.attempt_table import TaskTable

_log = logging.getLogger(__name__)

Handler = Callable[[TaskContext], Any]

CANCEL_GRACE: Final = 1.0
"""Seconds that a handler has to end after it was cancelled; after them its task is over without it."""

MAX_UNACKED: Final = 8 * 1024 * 1024
"""With so many bytes of an attempt unacked a checkpoint is held back; of those held back only the last is kept."""


class Outlet(Protocol):
    """Where the frames of a task go: the stream of a session, or the one call that it is for."""

    queue: FrameQueue

    @property
    def agreed(self) -> frozenset[str]: ...

    @property
    def peer_limit(self) -> int: ...

    @property
    def park_ttl(self) -> float: ...


class HeldTask:
    """From its assignment until its result is acked. It belongs to the agent: `session` is the stream that its frames
    leave on now, None while there is none."""

    def __init__(self, table: TaskTable, ref: common_pb2.TaskRef, session: Outlet) -> None:
        self.channel: Channel[session_pb2.AgentFrame] = Channel(ref)
        self.session: Outlet | None = session
        self.finished_at: float | None = None
        self.park_ttl = session.park_ttl
        self._table = table
        self.limit = session.peer_limit
        self._questions: Questions | None = None
        self._work: asyncio.Task[None] | None = None
        self._thread: asyncio.Future[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: TaskContext | None = None
        self._halted: ArchonError | None = None
        self._checkpoint: bytes | None = None

    @property
    def waiting(self) -> bool:
        """True while it only waits for what it has delegated."""
        return self.working and self._questions is not None and self._questions.waiting

    @property
    def questions(self) -> Questions:
        """Made when the handler asks for the first time: most tasks never do."""
        if self._questions is None:
            self._questions = Questions(self)
        return self._questions

    def remaining(self) -> float | None:
        """Seconds left; None where there is no end."""
        return self._task.remaining() if self._task is not None else None

    @property
    def ref(self) -> common_pb2.TaskRef:
        return self.channel.ref

    @property
    def working(self) -> bool:
        """True until there is a result."""
        return self.finished_at is None

    def start(self, handler: Handler, assigned: agent_pb2.AssignTask, role: str, stateful: bool = False) -> None:
        """Runs the handler as a task of its own; the read loop goes on."""
        task = self._task = TaskContext(self.ref, assigned, _Link(self), role=role, stateful=stateful)
        self._work = asyncio.create_task(self._run(handler, task), name=f"task-{self.ref.task_id}")
        self._table.running.add(self)
        self._work.add_done_callback(self._cancelled_early)
        remaining = task.remaining()
        if remaining is not None:
            self._timer = asyncio.get_running_loop().call_later(remaining, self._time_over)

    def cancel(self) -> None:
        """Stops the handler; the result will be CANCELED, or what it had."""
        if self.working:
            self._halt(OperationCancelled("the task was cancelled"))

    def _time_over(self) -> None:
        self._halt(DeadlineExceeded("the task's time was over"))

    def _halt(self, why: ArchonError) -> None:
        if self._work is None or self._halted is not None or not self.working:
            return
        self._halted = why
        self._work.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(CANCEL_GRACE, self._finish, why)

    async def _run(self, handler: Handler, task: TaskContext) -> None:
        """Calls the handler and sends its outcome in the same turn of the loop: a done callback takes another one."""
        try:
            outcome: object = await self._call(handler, task)
        except asyncio.CancelledError:
            self._ended(self._halted or Internal("the handler was cancelled by a part of itself"))
        except BaseException as error:
            self._ended(self._halted or error)
            if not isinstance(error, Exception):
                raise
        else:
            self._ended(outcome)

    async def _call(self, handler: Handler, task: TaskContext) -> object:
        trace = task.trace
        context.enter(
            context.CallContext(
                deadline=task.deadline,
                traceparent=trace.traceparent,
                tracestate=trace.tracestate,
                run_id=task.run_id,
                task_id=task.task_id,
            )
        )
        if inspect.iscoroutinefunction(handler):
            return await handler(task)
        self._thread = on_thread(functools.partial(handler, task), f"task-{task.task_id}")
        answer, error = await asyncio.shield(self._thread)
        if error is not None:
            raise error
        return await answer if inspect.isawaitable(answer) else answer

    def _cancelled_early(self, work: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step never runs."""
        if work.cancelled():
            self._ended(self._halted or Internal("the handler was cancelled by a part of itself"))

    def _ended(self, outcome: object) -> None:
        if self._thread is None or self._thread.done():
            self._table.left(self)
        else:
            self._thread.add_done_callback(lambda _: self._table.left(self))
        self._finish(outcome)

    def send(self, content: session_pb2.AgentFrame | bytes, sequenced: bool = True) -> None:
        """Sends on the stream that the task belongs to now; a sequenced frame waits where there is none."""
        if not sequenced and (not self.working or not self.agreed("progress")):
            return  # nothing of a task comes after its result
        frame = self.channel.stamp(content, sequenced=sequenced)
        if sequenced:
            self._table.recount(self)
        if self.session is not None:
            self.session.queue.put(frame, droppable=not sequenced)

    def save(self, checkpoint: bytes) -> None:
        """Sends a checkpoint, the calls that it rests on before it; not before there is room."""
        if self.working and self.agreed("checkpoint"):
            self.send_records()
            self._checkpoint = checkpoint
            self._send_checkpoint()

    def acked(self, sequence: int) -> None:
        """The other side is done with everything up to here, which may have made room."""
        self.channel.acked(sequence)
        self._table.recount(self)
        self._send_checkpoint()

    def settle(self) -> None:
        """Sends what has to go before a frame that follows from it."""
        self._send_checkpoint(room=True)
        self.send_records()

    def _send_checkpoint(self, *, room: bool = False) -> None:
        if self._checkpoint is not None and (room or self.channel.pending_bytes < MAX_UNACKED):
            checkpoint, self._checkpoint = self._checkpoint, None
            self.send(checkpoint)

    def check_checkpoint(self, content: bytes) -> None:
        """Raises FrameTooLarge where the other side wouldn't take it: it would break the stream, and the one after."""
        if self.agreed("checkpoint"):
            self.channel.check_size(content, self.limit)

    def agreed(self, feature: str) -> bool:
        """Whether frames of this kind may be sent; they may wait where there is no stream."""
        return self.session is None or feature in self.session.agreed

    def send_again(self, after: int) -> None:
        """Everything that isn't acked, from the one after `after`."""
        self.channel.acked(after)
        self._table.recount(self)
        if self.session is not None:
            for frame in self.channel.unacked():
                self.session.queue.put(frame)
            self._send_checkpoint()

    def say_working(self, session: Outlet) -> None:
        """That it is worked on: what AdoptTask is answered with, and what any orchestrator may be told."""
        adopted = session_pb2.Adopted(last_applied=self.channel.applied)
        session.queue.put(session_pb2.AgentFrame(task=self.ref, adopted=adopted))

    def tell_usage(self) -> None:
        """What the handler has spent, to an owner that may not have heard."""
        if self._task is not None:
            self._task.tell_usage()

    def bind(self, session: Outlet, epoch: int) -> None:
        """The task belongs to this stream and owner from here on."""
        self.session, self.park_ttl, self.limit = session, session.park_ttl, session.peer_limit
        self.ref.epoch = epoch

    def _finish(self, outcome: object) -> None:
        """`outcome` is what the handler returned, or the error that ended it."""
        task = self._task
        if not self.working or task is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.settle()
        self._task = None  # the context refers to this object: both are freed without the garbage collector
        content = agent_content("result", self._result(task, outcome))
        try:
            self.channel.check_size(content, self.limit)
        except FrameTooLarge as error:
            content = agent_content("result", self._failed(task, error))
        self.finished_at = time.monotonic()
        if self in self._table.running:
            self._table.abandoned.add(self)
        if self._questions is not None:
            self._questions.close()
            self._questions = None
        self.send(content)
        self._table.changed()

    def send_records(self) -> None:
        """The calls that were recorded since the last time: they go before the frame that follows from them."""
        records = self._task.take_records() if self._task is not None else ()
        for record in records if self.agreed("record") else ():
            self._send_record(record)

    def _send_record(self, record: agent_pb2.CallRecord) -> None:
        content = agent_content("record", record)
        try:
            self.channel.check_size(content, self.limit)
        except FrameTooLarge:
            content = agent_content("record", without_payload(record))
        self.send(content)

    def _result(self, task: TaskContext, outcome: object) -> agent_pb2.TaskResult:
        try:
            if isinstance(outcome, BaseException):
                return self._failed(task, outcome)
            return to_result(task, outcome)
        except Exception as error:  # noqa: BLE001 - an answer, or an error's text, that can't be sent
            return self._failed(task, error)

    def _failed(self, task: TaskContext, error: BaseException) -> agent_pb2.TaskResult:
        state = common_pb2.TASK_STATE_FAILED
        if isinstance(error, TaskRejected):
            state = common_pb2.TASK_STATE_REJECTED
        elif error is self._halted and isinstance(error, OperationCancelled):
            state = common_pb2.TASK_STATE_CANCELED
        return agent_pb2.TaskResult(state=state, failure=status.to_failure(status.as_error(error)), usage=task.usage)


class _Link:
    """A handler's way to its orchestrator; what may be dropped may come from a thread."""

    def __init__(self, held: HeldTask) -> None:
        self._held = held
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def send(self, frame: session_pb2.AgentFrame) -> None:
        if threading.get_ident() == self._thread:
            self._held.send(frame, sequenced=False)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._held.send, frame, False)

    def save(self, frame: session_pb2.AgentFrame) -> None:
        content = agent_content("checkpoint", frame.checkpoint)
        self._held.check_checkpoint(content)  # here, so that a thread hears of it
        if threading.get_ident() == self._thread:
            self._held.save(content)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._held.save, content)

    async def delegate(self, asked: session_pb2.Delegate) -> session_pb2.DelegateResult:
        return await self._held.questions.delegate(asked)

    async def reserve(self, wanted: common_pb2.Budget) -> session_pb2.BudgetGrant:
        return await self._held.questions.reserve(wanted)
