"""Ports of the orchestrator, beside the journal: clock, transport, inbox. The simulation brings its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, Protocol

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.core.value import value
from archon_mesh.engine.inputs import Input
from archon_mesh.engine.types import InstanceChoice, Requirement, quantize
from archon_services.common.audit_entry import AuditRow


class TimerHandle(Protocol):
    """A call that a clock makes later unless it is cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """A clock, in seconds."""

    def now(self) -> float:
        """Returns wall time in whole microseconds. It follows the monotonic clock: a jump of the machine's clock moves
        no deadline."""
        ...

    def monotonic(self) -> float:
        """Returns a time that never goes back."""
        ...


class RunClock(Clock, Protocol):
    """The clock of one run. While it `ticks`, the decisions that are due are made; if it does not, only the tasks are
    looked at that waited for the time."""

    @property
    def ticks(self) -> bool: ...

    def call_at(self, at: float, call: Callable[[], None]) -> TimerHandle:
        """Calls `call` once it is `at` (wall seconds)."""
        ...


class SystemClock:
    """The machine's monotonic clock, and wall time carried on by it from `wall` (seconds; None: the machine's)."""

    ticks = True

    def __init__(self, wall: float | None = None) -> None:
        self._wall = time.time() if wall is None else wall
        self._start = time.monotonic()

    @property
    def origin(self) -> float:
        """The wall time at which the monotonic clock was 0."""
        return quantize(self._wall - self._start)

    def now(self) -> float:
        return quantize(self._wall + time.monotonic() - self._start)

    def call_at(self, at: float, call: Callable[[], None]) -> TimerHandle:
        """Calls `call` a millisecond after `at` (wall seconds), so that the time is over by then."""
        return asyncio.get_running_loop().call_later(max(0.0, at - self.now()) + 0.001, call)

    def monotonic(self) -> float:
        return time.monotonic()


class Receipt(Protocol):
    """Tells the sender of an input its outcome. `epoch` is the run's epoch as the judging replica knows it, 0 if it
    knows none: a sender that knows a higher epoch ignores the receipt."""

    def accept(self, epoch: int = 0) -> None:
        """The event that the input caused is durable."""
        ...

    def discard(self, reason: str, epoch: int = 0) -> None:
        """The input did not count."""
        ...


@value
class Delivery:
    """An input on its way to a run."""

    given: Input
    receipt: Receipt | None = None
    records: Sequence[agent_pb2.CallRecord] = field(default_factory=tuple)
    quiet: bool = False
    """Whether the input waits for the run's next step instead of causing one."""

    posted: int = 0
    """The row of a command that another replica posted, 0 if no command was posted."""

    size: int = 0
    """Bytes of the frames that it came in, 0 if it came in none."""

    source: str = ""
    """The instance whose session the input came from; empty if it came from no session."""

    audit: AuditRow | None = None
    """The entry of the audit log about a command, stored with its effect."""


class Inbox(Protocol):
    """Receives a transport's messages from agents."""

    def deliver(self, run_id: str, delivery: Delivery) -> bool:
        """Takes an input of a run. Returns False if it was dropped: there will be no receipt."""
        ...

    def expects(self, ref: common_pb2.TaskRef, source: str) -> bool:
        """Returns whether a run that is driven here has dispatched the attempt to the instance `source`."""
        ...

    def progress(self, ref: common_pb2.TaskRef, progress: agent_pb2.Progress, source: str) -> None: ...


@value
class AttemptStatus:
    """An attempt as the journal has it: seconds `remaining`, the last frame of the agent that is `applied`, and the
    delegations that have no answer yet."""

    remaining: float
    applied: int = 0
    outstanding: frozenset[str] = frozenset()
    released: bool = False
    """Whether the owner before stopped on purpose, and maybe the instance with it: if the instance does not hold the
    attempt any more, that is no loss."""


class Slot(NamedTuple):
    """A reserved slot of an instance, and why it was chosen; None if there was no other."""

    instance_id: str
    choice: InstanceChoice | None = None


class DispatchGate(Protocol):
    """Holds back the dispatches of tasks: a replay has them come in the recorded order."""

    def admits(self, task_id: str, attempt: int, wake: Callable[[], None]) -> bool:
        """Returns whether the attempt may be dispatched now. If not, `wake` is called once it may."""
        ...


class Transport(Protocol):
    """Reaches instances of roles. No method waits."""

    def of_tenant(self, tenant: str) -> Transport:
        """Returns the transport to the instances of one tenant; this one reaches the default tenant's."""
        ...

    def stateful(self, role: str) -> bool:
        """Returns whether instances of the role receive its conversation."""
        ...

    def message_types(self, role: str) -> Mapping[str, str]:
        """Returns the types of messages that the role may exchange, and with which roles, as its profile has them;
        empty: any."""
        ...

    def reserve(self, want: Requirement, avoid: Collection[str] = (), prefer: str = "") -> Slot | None:
        """Reserves a slot on a matching instance with free capacity: on `prefer` if it has any, else on the least
        loaded of those that are compared, as their records weigh it, and on one of `avoid` only if there is no other.
        Returns None if no slot is free."""
        ...

    def expected_seconds(self, role: str) -> float:
        """Returns the seconds within which 95 % of the role's attempts ended, 0 if too few are measured."""
        ...

    def holds_breakpoints(self, instance_id: str) -> bool:
        """Returns whether the runtime of an instance can hold before calls of tools and models."""
        ...

    def record_weight(self, role: str, instance_id: str) -> float:
        """Returns the weight of an instance's vote by its record; 1 without one."""
        ...

    def release(self, instance_id: str) -> None:
        """Releases a reserved slot."""
        ...

    def when_free(self, want: Requirement, run_id: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake` once when a matching instance may have free capacity for a task of the run, which takes turns
        with other runs. Returns a function that cancels this."""
        ...

    def assign(self, instance_id: str, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        """Sends an attempt to an instance, into a reserved slot."""
        ...

    def adopt(self, instance_id: str, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus) -> None:
        """Asks an instance whether it still holds an attempt; the answer comes as a delivery."""
        ...

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """Sends an attempt a reply. The result of a delegation waits until the attempt may use a slot again."""
        ...

    def cancel(self, instance_id: str, ref: common_pb2.TaskRef, reason: str) -> None:
        """Tells an instance to stop an attempt."""
        ...

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        """Forgets the attempts of a run that another replica has taken over, without a word to their instances. `over`:
        the run has ended, and attempts that are still being executed get a cancel."""
        ...
