"""The tasks that an agent holds: under way, or finished and parked until the result is acked.

They belong to the agent, not to a stream: a stream that breaks takes none of them along.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from archon import context, status
from archon.agent.task import TaskContext, TaskRejected
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Aborted, ArchonError, DeadlineExceeded, FrameTooLarge, OperationCancelled
from archon.frames import Channel, check_size

if TYPE_CHECKING:
    from archon.agent.session import AgentSession

_log = logging.getLogger(__name__)

Handler = Callable[[TaskContext], Any]

MAX_EPOCHS: Final = 10_000
MAX_PARKED_BYTES: Final = 64 * 1024 * 1024
DEFAULT_PARK_TTL: Final = 25 * 3600.0


class HeldTask:
    """One attempt, from its assignment until its result is acked."""

    def __init__(self, table: TaskTable, ref: common_pb2.TaskRef, session: AgentSession) -> None:
        self.table = table
        self.channel: Channel[session_pb2.AgentFrame] = Channel(ref)
        self.session: AgentSession | None = session
        self.finished_at: float | None = None
        self._runner: asyncio.Task[None] | None = None

    @property
    def ref(self) -> common_pb2.TaskRef:
        return self.channel.ref

    @property
    def working(self) -> bool:
        """True until there is a result."""
        return self.finished_at is None

    def start(self, handler: Handler, assigned: agent_pb2.AssignTask, role: str) -> None:
        """Runs the handler as a task of its own; the read loop goes on."""
        self._runner = asyncio.create_task(self._run(handler, assigned, role), name=f"task-{self.ref.task_id}")

    def cancel(self) -> None:
        """Stops the handler; its result will be CANCELED, or what it had."""
        if self._runner is not None:
            self._runner.cancel()

    async def ended(self) -> None:
        """Returns when the handler has ended."""
        if self._runner is not None:
            await asyncio.wait([self._runner])

    def send(self, frame: session_pb2.AgentFrame, sequenced: bool = True) -> None:
        """Sends on the stream that the task belongs to now; a sequenced frame waits where there is none."""
        self.channel.stamp(frame, sequenced=sequenced)
        if self.session is not None:
            self.session.queue.put(frame, droppable=not sequenced)

    def send_again(self, after: int) -> None:
        """Everything that isn't acked, from the one after `after`."""
        self.channel.acked(after)
        if self.session is not None:
            for frame in self.channel.unacked(after):
                self.session.queue.put(frame)

    async def _run(self, handler: Handler, assigned: agent_pb2.AssignTask, role: str) -> None:
        task = TaskContext(self.ref, assigned, self.send, role=role)
        trace = assigned.trace
        call = context.CallContext(
            deadline=task._deadline,
            traceparent=trace.traceparent,
            tracestate=trace.tracestate,
            run_id=task.run_id,
            task_id=task.task_id,
        )
        with context.serving(call):
            result = await self._answer(handler, task)
        self._finish(task, result)

    async def _answer(self, handler: Handler, task: TaskContext) -> agent_pb2.TaskResult:
        try:
            async with asyncio.timeout(task.remaining()):
                if inspect.iscoroutinefunction(handler):
                    answer = await handler(task)
                else:
                    answer = await asyncio.to_thread(handler, task)
                    if isinstance(answer, Awaitable):
                        answer = await answer
                return task._result(answer)
        except asyncio.CancelledError:
            return _failed(common_pb2.TASK_STATE_CANCELED, OperationCancelled("the task was cancelled"), task)
        except TaskRejected as error:
            return _failed(common_pb2.TASK_STATE_REJECTED, error, task)
        except TimeoutError as error:
            own = isinstance(error, ArchonError)
            late = error if own else DeadlineExceeded("the task's time was over")
            return _failed(common_pb2.TASK_STATE_FAILED, late, task)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its task's failure
            return _failed(common_pb2.TASK_STATE_FAILED, error, task)

    def _finish(self, task: TaskContext, result: agent_pb2.TaskResult) -> None:
        limit = self.session.peer_limit if self.session is not None else self.table.message_limit
        try:
            check_size(session_pb2.AgentFrame(task=self.ref, result=result), limit)
        except FrameTooLarge as error:
            result = _failed(common_pb2.TASK_STATE_FAILED, error, task)
        for record in task._take_records():
            self.send(session_pb2.AgentFrame(record=record))
        self.finished_at = time.monotonic()
        self.send(session_pb2.AgentFrame(result=result))
        self.table.changed()


def _failed(state: common_pb2.TaskState.ValueType, error: BaseException, task: TaskContext) -> agent_pb2.TaskResult:
    return agent_pb2.TaskResult(state=state, failure=status.to_failure(status.as_error(error)), usage=task.usage)


class TaskTable:
    """All tasks of an agent, at most `capacity` of them under way."""

    def __init__(self, capacity: int, message_limit: int) -> None:
        self.capacity = capacity
        self.message_limit = message_limit
        self.park_ttl = DEFAULT_PARK_TTL
        self._held: dict[str, HeldTask] = {}
        self._epochs: OrderedDict[str, int] = OrderedDict()
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[HeldTask]:
        return iter(list(self._held.values()))

    def get(self, ref: common_pb2.TaskRef) -> HeldTask | None:
        """The task under this very attempt, if it is held."""
        held = self._held.get(ref.task_id)
        return held if held is not None and held.ref.attempt == ref.attempt else None

    def newest(self, task_id: str) -> HeldTask | None:
        """The task under whatever attempt is held."""
        return self._held.get(task_id)

    def add(self, held: HeldTask) -> None:
        """Takes a task in. An older attempt of the same task is stopped and forgotten: its result couldn't count."""
        older = self._held.get(held.ref.task_id)
        if older is not None:
            older.session = None
            older.cancel()
        self._held[held.ref.task_id] = held

    def drop(self, held: HeldTask) -> None:
        """Forgets a task: its result was acked, or doesn't count."""
        if self._held.get(held.ref.task_id) is held:
            del self._held[held.ref.task_id]
        held.cancel()
        self.changed()

    def check_epoch(self, ref: common_pb2.TaskRef) -> None:
        """Raises Aborted / STALE_EPOCH below the highest epoch seen for the run; remembers a higher one."""
        highest = self._epochs.get(ref.run_id, 0)
        if ref.epoch < highest:
            raise Aborted(
                f"epoch {ref.epoch} of run {ref.run_id} is over, {highest} owns it",
                reason="STALE_EPOCH",
                metadata={"run_id": ref.run_id, "epoch": str(highest)},
            )
        self._epochs[ref.run_id] = ref.epoch
        self._epochs.move_to_end(ref.run_id)
        if len(self._epochs) > MAX_EPOCHS:
            self._epochs.popitem(last=False)

    @property
    def working(self) -> int:
        """How many tasks are under way."""
        return sum(held.working for held in self._held.values())

    @property
    def parked_full(self) -> bool:
        """True where so much is parked that no credit may be given."""
        return sum(held.channel.pending_bytes for held in self._held.values()) > MAX_PARKED_BYTES

    def expire(self) -> None:
        """Forgets results that nobody acked within the time that the orchestrator asked for."""
        now = time.monotonic()
        for held in self:
            if held.finished_at is not None and now - held.finished_at > self.park_ttl:
                _log.warning("result of task %s was never acked, forgotten", held.ref.task_id)
                self.drop(held)

    def changed(self) -> None:
        """Wakes whoever waits for tasks to end."""
        self._changed.set()

    async def wait_changed(self) -> None:
        """Returns when a task has ended, was dropped, or lost its stream."""
        self._changed.clear()
        await self._changed.wait()

    async def stop(self) -> None:
        """Cancels what is under way and waits for the handlers to end."""
        tasks = list(self._held.values())
        for held in tasks:
            held.session = None
            held.cancel()
        for held in tasks:
            await held.ended()
        self._held.clear()
