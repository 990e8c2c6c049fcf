"""One attempt at a task: its handler while it runs, then its result until the orchestrator acks it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from archon import context, status
from archon.agent.facts import check_outcome
from archon.agent.pending_calls import PendingCalls
from archon.agent.records import without_payload
from archon.agent.result import to_result
from archon.agent.shared import SharedConnection
from archon.agent.task import TaskContext
from archon.agent.task_span import end_task_span, start_task_span
from archon.agent.values import TaskRejected
from archon.api.agent.v1 import agent_pb2, message_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FrameTooLarge,
    Internal,
    OperationCancelled,
    ResourceExhausted,
    Unimplemented,
)
from archon.failure_kinds import TOOL_CRASH
from archon.frames import Channel, FrameQueue, agent_content
from archon.telemetry import logs
from archon.threads import on_thread

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_log = logging.getLogger(__name__)

Handler = Callable[[TaskContext], Any]

CANCEL_GRACE: Final = 1.0
"""Seconds that a cancelled handler has to end; after them its attempt ends without it."""

MAX_UNACKED: Final = 8 * 1024 * 1024
"""Unacked bytes of an attempt above which a checkpoint is held back, and no item is published; only the newest of the
checkpoints held back is kept."""

RECORDS_WITHIN: Final = 0.5
"""Seconds after which recorded calls are sent, if no frame that they precede was sent before."""

MAX_OFFERED: Final = 8
"""Orchestrators that an attempt was offered to and may still answer; further ones take the places of the oldest."""


class FrameSink(Protocol):
    """Where the frames of an attempt go: the stream of a session, or a single RunTask call."""

    queue: FrameQueue
    orchestrator_id: str

    @property
    def agreed(self) -> frozenset[str]: ...

    @property
    def peer_limit(self) -> int: ...

    @property
    def park_ttl(self) -> float: ...


class AttemptOwner(Protocol):
    """The part of the attempt table that an attempt uses."""

    running: set[Attempt]
    abandoned: set[Attempt]
    shared: SharedConnection

    def handler_ended(self, attempt: Attempt) -> None: ...

    def recount(self, attempt: Attempt) -> None: ...

    def note_shortage(self) -> None: ...

    def changed(self) -> None: ...


class Attempt:
    """From its assignment until its result is acked. It belongs to the agent; `session` is the stream on which its
    frames leave now, None while there is none."""

    def __init__(self, table: AttemptOwner, ref: common_pb2.TaskRef, session: FrameSink) -> None:
        self.channel: Channel[session_pb2.AgentFrame] = Channel(ref)
        self.ref = self.channel.ref
        self.session: FrameSink | None = session
        self._owner = session.orchestrator_id
        self._offered_to: deque[str] = deque(maxlen=MAX_OFFERED)
        self.finished_at: float | None = None
        self.park_ttl = session.park_ttl
        self.limit = session.peer_limit
        self._table = table
        self._calls: PendingCalls | None = None
        self._work: asyncio.Task[None] | None = None
        self._thread: asyncio.Future[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._records_timer: asyncio.TimerHandle | None = None
        self._task: TaskContext | None = None
        self._span: Span | None = None
        self._halted: ArchonError | None = None
        self._checkpoint: bytes | None = None

    @property
    def working(self) -> bool:
        """True until there is a result."""
        return self.finished_at is None

    @property
    def waiting(self) -> bool:
        """True while the attempt only waits for its delegations."""
        return self.working and self._calls is not None and self._calls.waiting

    @property
    def calls(self) -> PendingCalls:
        """Created when the handler makes its first call: most handlers make none."""
        if self._calls is None:
            self._calls = PendingCalls(self)
        return self._calls

    def heeds(self, orchestrator_id: str, ref: common_pb2.TaskRef) -> bool:
        """Whether a frame of this orchestrator about the task may act on the attempt: it assigned or adopted the
        attempt, the attempt was offered to it, or it has a higher epoch. No orchestrator may act on the task of a
        RunTask."""
        if ref.run_id != self.ref.run_id or not self._owner:
            return False
        return ref.epoch != self.ref.epoch or orchestrator_id == self._owner or orchestrator_id in self._offered_to

    def remaining(self) -> float | None:
        """Seconds left, or None if there is no limit or the clock stands still."""
        return self._task.remaining() if self._task is not None else None

    def stop_clock(self) -> None:
        """Stops the time of the task while it waits for a person, as its orchestrator does."""
        if self._task is not None:
            self._task.stop_clock()
        if self._timer is not None and self._halted is None:
            self._timer.cancel()
            self._timer = None

    def start_clock(self) -> None:
        """The time of the task goes on."""
        if self._task is None or self._halted is not None or not self.working:
            return
        self._task.start_clock()
        self._start_timer(self._task)

    def set_remaining(self, seconds: float) -> None:
        """Sets the time left, as the orchestrator that adopts the attempt has computed it."""
        if self._task is None or self._halted is not None or not self.working:
            return
        self._task.set_remaining(seconds)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._start_timer(self._task)

    def _start_timer(self, task: TaskContext) -> None:
        remaining = task.remaining()
        if remaining is not None:
            self._timer = asyncio.get_running_loop().call_later(remaining, self._time_out)

    # The handler

    def start(self, handler: Handler, assigned: agent_pb2.AssignTask, role: str, stateful: bool = False) -> None:
        """Runs the handler in an asyncio task of its own; the read loop does not wait for it."""
        task = self._task = TaskContext.from_proto(self.ref, assigned, _AttemptLink(self), role=role, stateful=stateful)
        task.share_by(self._table.shared)
        self._work = asyncio.create_task(self._run(handler, task), name=f"task-{self.ref.task_id}")
        self._table.running.add(self)
        self._work.add_done_callback(self._cancelled_early)
        self._start_timer(task)

    def cancel(self, *, over: bool = False) -> None:
        """Stops the handler. The result is CANCELED, or the handler's own if it is earlier. `over`: no other attempt
        goes on with the task."""
        if self.working:
            self._halt(OperationCancelled("the task was cancelled"), over=over)

    def _time_out(self) -> None:
        self._halt(DeadlineExceeded("the task's time is over"), over=True)

    def _halt(self, cause: ArchonError, *, over: bool) -> None:
        if self._work is None or self._halted is not None or not self.working:
            return
        self._halted = cause
        if self._task is not None and over:
            self._task.end()
        self._work.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(CANCEL_GRACE, self._finish, cause)

    async def _run(self, handler: Handler, task: TaskContext) -> None:
        """Calls the handler and sends its outcome in the same turn of the loop: a done callback takes another one."""
        try:
            outcome: object = await self._call_and_leave(handler, task)
        except asyncio.CancelledError:
            self._ended(self._halted or Internal("the handler was cancelled by its own code"))
        except BaseException as error:
            self._ended(self._halted or error)
            if not isinstance(error, Exception):
                raise
        else:
            self._ended(outcome)

    async def _call_and_leave(self, handler: Handler, task: TaskContext) -> object:
        """Calls the handler, and compares its answer with the facts of the run. The items of work that it still holds
        go to others, unless it was cancelled: then another attempt of the task may go on with them."""
        try:
            outcome = await self._call(handler, task)
            await check_outcome(outcome, task.facts_at_hand)
        except asyncio.CancelledError:
            await task.leave_work(give_back=False)
            raise
        except BaseException:
            await task.leave_work(give_back=True)
            raise
        await task.leave_work(give_back=True)
        return outcome

    async def _call(self, handler: Handler, task: TaskContext) -> object:
        trace = task.proto.trace
        context.enter(
            context.CallContext(
                deadline=task.deadline,
                traceparent=trace.traceparent,
                tracestate=trace.tracestate,
                run_id=task.run_id,
                task_id=task.task_id,
                attempt=task.attempt,
                role=task.role,
            )
        )
        self._span = start_task_span(task)
        if inspect.iscoroutinefunction(handler):
            return await handler(task)
        self._thread = on_thread(functools.partial(handler, task), f"task-{task.task_id}")
        answer, error = await asyncio.shield(self._thread)
        if error is not None:
            raise error
        return await answer if inspect.isawaitable(answer) else answer

    def _cancelled_early(self, work: asyncio.Task[None]) -> None:
        """Ends an attempt whose asyncio task was cancelled before its first step: such a task never runs."""
        if work.cancelled():
            self._ended(self._halted or Internal("the handler was cancelled by its own code"))

    def _ended(self, outcome: object) -> None:
        if self._thread is None or self._thread.done():
            self._table.handler_ended(self)
        else:
            self._thread.add_done_callback(lambda _: self._table.handler_ended(self))
        self._finish(outcome)

    # Its frames

    def send(self, content: session_pb2.AgentFrame | bytes, sequenced: bool = True) -> None:
        """Sends on the current stream. Without a stream a sequenced frame waits for one, any other is dropped."""
        if not sequenced and (not self.working or not self.agreed("progress")):
            return  # no progress after the result
        frame = self.channel.stamp(content, sequenced=sequenced)
        if sequenced:
            self._table.recount(self)
        if self.session is not None:
            self.session.queue.put(frame, droppable=not sequenced)

    def save(self, checkpoint: bytes) -> None:
        """Sends a checkpoint, and before it the calls that it rests on, as soon as there is room."""
        if self.working and self.agreed("checkpoint"):
            self.send_records()
            self._checkpoint = checkpoint
            self._send_checkpoint()

    def check_checkpoint(self, content: bytes) -> None:
        """Raises FrameTooLarge if the peer would not take the frame: it would break this stream and the next one."""
        if self.agreed("checkpoint"):
            self.channel.check_size(content, self.limit)

    def publish(self, item: bytes) -> None:
        """Sends an item, and before it the calls that it rests on."""
        if self.working and self.agreed("publish"):
            self.flush()
            self.send(item)

    def check_item(self, content: bytes) -> None:
        """Raises Unimplemented, FrameTooLarge, or ResourceExhausted if too much waits to be stored."""
        if not self.agreed("publish"):
            raise Unimplemented("the caller of this task does not support the feature publish")
        self.channel.check_size(content, self.limit)
        if self.channel.pending_bytes > MAX_UNACKED:
            raise ResourceExhausted(
                f"{self.channel.pending_bytes:,} bytes of this task wait to be stored, at most {MAX_UNACKED:,} may; "
                "publish less often"
            )

    def updated(self, update: session_pb2.UpdateMemory) -> None:
        """Passes newer answers of other roles to the handler."""
        if self._task is not None:
            self._task._update(update.context)

    def received(self, message: message_pb2.PeerMessage) -> None:
        """Passes a message of another agent to the handler."""
        if self._task is not None:
            self._task._messenger.receive(message)

    def flush(self) -> None:
        """Sends the frames that must precede later ones: the checkpoint held back, and the recorded calls."""
        self._send_checkpoint(room=True)
        self.send_records()

    def _send_checkpoint(self, *, room: bool = False) -> None:
        if self._checkpoint is not None and (room or self.channel.pending_bytes < MAX_UNACKED):
            checkpoint, self._checkpoint = self._checkpoint, None
            self.send(checkpoint)

    def recorded(self) -> None:
        """Sends the recorded calls soon, together with the next ones: most precede a result by then."""
        if self.working and self._records_timer is None:
            self._records_timer = asyncio.get_running_loop().call_later(RECORDS_WITHIN, self.send_records)

    def send_records(self) -> None:
        """Sends the calls that were recorded since the last time."""
        if self._records_timer is not None:
            self._records_timer.cancel()
            self._records_timer = None
        records = self._task._take_records() if self._task is not None else ()
        for record in records if self.agreed("record") else ():
            self._send_record(record)

    def _send_record(self, record: agent_pb2.CallRecord) -> None:
        content = agent_content("record", record)
        try:
            self.channel.check_size(content, self.limit)
        except FrameTooLarge:
            content = agent_content("record", without_payload(record))
        self.send(content)

    def send_usage(self) -> None:
        """Sends the handler's usage, for an owner that may not know it."""
        if self._task is not None:
            self._task.send_usage()

    def send_adopted(self, session: FrameSink) -> None:
        """Tells an orchestrator that the attempt is being worked on: as the answer to AdoptTask, or unasked."""
        adopted = session_pb2.Adopted(last_applied=self.channel.applied)
        session.queue.put(session_pb2.AgentFrame(task=self.ref, adopted=adopted))

    def offer(self, session: FrameSink) -> None:
        """Offers the attempt to any orchestrator, which may answer that it is over: its result, or, while there is
        none, that it is being worked on."""
        if session.orchestrator_id != self._owner and session.orchestrator_id not in self._offered_to:
            self._offered_to.append(session.orchestrator_id)
        if self.working:
            self.send_adopted(session)
            return
        bound, self.session = self.session, session
        self.resend(0)
        self.session = bound

    def resend(self, after: int) -> None:
        """Sends every unacked frame after the sequence `after` again."""
        self.channel.acked(after)
        self._table.recount(self)
        if self.session is not None:
            for frame in self.channel.unacked():
                self.session.queue.put(frame)
            self._send_checkpoint()

    def acked(self, sequence: int) -> None:
        """Forgets the frames up to `sequence`; this may make room for a checkpoint."""
        self.channel.acked(sequence)
        self._table.recount(self)
        self._send_checkpoint()

    def agreed(self, feature: str) -> bool:
        """Whether frames of this kind may be sent. True without a stream: the frame waits for the next one."""
        return self.session is None or feature in self.session.agreed

    def bind(self, session: FrameSink, epoch: int) -> None:
        """Moves the attempt to another stream and owner."""
        self._owner = session.orchestrator_id
        self.session, self.park_ttl, self.limit = session, session.park_ttl, session.peer_limit
        self.ref.epoch = epoch

    # Its result

    def _finish(self, outcome: object) -> None:
        """Sends the result: of the handler's return value, or of the error that ended it."""
        task = self._task
        if not self.working or task is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._task = None  # the context refers to this object: both are freed without the garbage collector
        result = self._result(task, outcome)
        if self._span is not None:
            end_task_span(self._span, result)
            self._span = None
        content = self._result_content(task, result)
        self.finished_at = time.monotonic()
        if self in self._table.running:
            self._table.abandoned.add(self)
        if self._calls is not None:
            self._calls.close()
            self._calls = None
        self.send(content)
        self._table.changed()

    def _result_content(self, task: TaskContext, result: agent_pb2.TaskResult) -> bytes:
        """The frame's content. Items that make it too large are left out; without them it fails the task."""
        content = agent_content("result", result)
        try:
            self.channel.check_size(content, self.limit)
            return content
        except FrameTooLarge as error:
            if not result.items:
                return agent_content("result", self._failed(task, error))
            about = logs.task_fields(self.ref)
            _log.warning("the items of task %s are not published: with them %s", task.task_id, error, extra=about)
        del result.items[:]
        content = agent_content("result", result)
        try:
            self.channel.check_size(content, self.limit)
        except FrameTooLarge as error:
            content = agent_content("result", self._failed(task, error))
        return content

    def _result(self, task: TaskContext, outcome: object) -> agent_pb2.TaskResult:
        try:
            if isinstance(outcome, BaseException):
                return self._failed(task, outcome)
            return to_result(task, outcome)
        except Exception as error:  # noqa: BLE001 - an answer, or the text of an error, that cannot be sent
            return self._failed(task, error)

    def _failed(self, task: TaskContext, error: BaseException) -> agent_pb2.TaskResult:
        state = common_pb2.TASK_STATE_FAILED
        if isinstance(error, MemoryError):
            self._table.note_shortage()
        if isinstance(error, TaskRejected):
            state = common_pb2.TASK_STATE_REJECTED
        elif error is self._halted and isinstance(error, OperationCancelled):
            state = common_pb2.TASK_STATE_CANCELED
        return agent_pb2.TaskResult(
            state=state, failure=status.to_failure(status.as_error(error, TOOL_CRASH)), usage=task._usage
        )


class _AttemptLink:
    """The link of a TaskContext; `send` and `save` may be called from the thread of a plain function."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def send(self, frame: session_pb2.AgentFrame) -> None:
        if threading.get_ident() == self._thread:
            self._attempt.send(frame, sequenced=False)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._attempt.send, frame, False)

    def recorded(self) -> None:
        if threading.get_ident() == self._thread:
            self._attempt.recorded()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._attempt.recorded)

    def save(self, checkpoint: session_pb2.Checkpoint) -> None:
        content = agent_content("checkpoint", checkpoint)
        self._attempt.check_checkpoint(content)  # here, so that the error is raised in the calling thread
        if threading.get_ident() == self._thread:
            self._attempt.save(content)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._attempt.save, content)

    def publish(self, item: session_pb2.Publish) -> None:
        content = agent_content("publish", item)
        self._attempt.check_item(content)
        if threading.get_ident() == self._thread:
            self._attempt.publish(content)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._attempt.publish, content)

    async def delegate(self, delegation: session_pb2.Delegate) -> session_pb2.DelegateResult:
        return await self._attempt.calls.delegate(delegation)

    async def send_message(self, message: message_pb2.PeerMessage) -> session_pb2.MessageResult:
        return await self._attempt.calls.send_message(message)

    def subscribe(self, subscription: session_pb2.Subscribe) -> None:
        self._attempt.calls.subscribe(subscription)

    async def ask(self, question: agent_pb2.InputRequest) -> session_pb2.Input:
        return await self._attempt.calls.ask(question)

    async def reserve(self, budget: common_pb2.Budget) -> session_pb2.BudgetGrant:
        return await self._attempt.calls.reserve(budget)
