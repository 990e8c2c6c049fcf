"""What the driver stands on, beside the journal: a clock and a transport. A simulation brings its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.core.run.inputs import Input
from archon_mesh.core.run.types import Requirement, quantize


class Clock(Protocol):
    """Seconds. `now` is wall time that goes on with the monotonic clock, so that a jump of the machine's clock moves no
    deadline; in whole microseconds."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's monotonic clock, and wall time as somebody read it once, carried on by that. `wall` is what time it
    is now (seconds); None: what the machine says."""

    def __init__(self, wall: float | None = None) -> None:
        self._wall = time.time() if wall is None else wall
        self._start = time.monotonic()

    def now(self) -> float:
        """Wall time, in whole microseconds."""
        return quantize(self._wall + time.monotonic() - self._start)

    def monotonic(self) -> float:
        """Never goes back."""
        return time.monotonic()


class Receipt(Protocol):
    """What the sender of a frame waits for: that its event is durable, or that it didn't count. `epoch` is the run's as
    whoever judges knows it, 0: it knows none; whoever has heard of that one takes no word of a lower."""

    def accept(self, epoch: int = 0) -> None: ...

    def discard(self, reason: str, epoch: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """An input on its way to a run, with what came along."""

    given: Input
    receipt: Receipt | None = None
    records: Sequence[agent_pb2.CallRecord] = field(default_factory=tuple)
    quiet: bool = False
    """True: it joins the run's next step and makes none of its own."""
    posted: int = 0
    """The row of a command that another replica left; 0: none."""


class Inbox(Protocol):
    """Where a transport brings what it hears."""

    def deliver(self, run_id: str, delivery: Delivery) -> None: ...

    def progress(self, ref: common_pb2.TaskRef, progress: agent_pb2.Progress) -> None: ...


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """How an attempt stands in the journal: seconds `remaining`, the last of the agent's frames that is `applied`, the
    delegations that it has no answer to yet."""

    remaining: float
    applied: int = 0
    outstanding: frozenset[str] = frozenset()


class Transport(Protocol):
    """Reaches instances of roles. Nothing here waits."""

    def stateful(self, role: str) -> bool:
        """Whether instances of the role are to be told what it remembers of a session."""
        ...

    def reserve(self, want: Requirement) -> str | None:
        """Keeps a slot free on the least loaded instance that fits and has room; its instance_id, or None."""
        ...

    def release(self, instance_id: str) -> None:
        """Gives a reserved slot back."""
        ...

    def when_free(self, want: Requirement, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake` once when an instance that fits may have room. Returns what calls it off."""
        ...

    def assign(self, instance_id: str, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        """Uses a reserved slot."""
        ...

    def adopt(self, instance_id: str, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus) -> None:
        """Asks an instance whether it still holds an attempt; the answer comes as a delivery."""
        ...

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        """Tells an attempt what it asked for. A delegation's result waits until the task may take a slot again."""
        ...

    def cancel(self, instance_id: str, ref: common_pb2.TaskRef, reason: str) -> None: ...

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        """The run is somebody else's: its attempts are asked for by its new owner, and nothing is said to them here.
        Where it is over, those that haven't ended are to stop."""
        ...
