"""Runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from archon.api.orchestrator.v1 import run_pb2
from archon.types.breakpoint import RunBreakpoint
from archon.types.edge import Edge
from archon.types.enum_name import enum_name
from archon.types.failure import Failure
from archon.types.message_view import MessageView
from archon.types.part import Part, to_parts
from archon.types.plan import Plan
from archon.types.run_answer import RunAnswer
from archon.types.run_mark import RunMark
from archon.types.run_question import RunQuestion
from archon.types.run_rating import RunRating
from archon.types.run_task import RunTask
from archon.types.task_state import TaskState
from archon.types.usage import Usage
from archon.wire import to_seconds


class Run(MessageView[run_pb2.Run]):
    """A run as it was when the orchestrator was asked. Times are in seconds since the epoch; 0 if they are not set."""

    __slots__ = ()

    _SHOWN = ("run_id", "state")

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.proto.run_id

    @property
    def tenant(self) -> str:
        """The tenant that the run belongs to."""
        return self.proto.tenant

    @property
    def session_id(self) -> str:
        """The user's session, which is also the memory scope; empty if the submit named none."""
        return self.proto.session_id

    @property
    def strategy(self) -> str:
        """`pipeline`, `agent` or `plan`; empty if it is unknown to this version."""
        return enum_name(run_pb2.Strategy, "STRATEGY_", self.proto.strategy)

    @property
    def state(self) -> TaskState:
        """The run's state."""
        return TaskState.from_proto(self.proto.state)

    @property
    def breakpoints(self) -> list[RunBreakpoint]:
        """The breakpoints of the run, in the order in which they were set."""
        return list(map(RunBreakpoint, self.proto.breakpoints))

    @property
    def paused(self) -> bool:
        """Whether the run is paused: no task is dispatched until it is resumed."""
        return self.proto.paused

    @property
    def goal(self) -> tuple[Part, ...]:
        """The run's goal."""
        return to_parts(self.proto.goal)

    @property
    def tasks(self) -> tuple[RunTask, ...]:
        """The run's tasks, in the order of their creation."""
        return tuple(map(RunTask, self.proto.tasks))

    @property
    def answers(self) -> tuple[RunAnswer, ...]:
        """The final answers, by the roles that no other role depends on."""
        return tuple(map(RunAnswer, self.proto.answers))

    @property
    def failure(self) -> Failure | None:
        """Why the run failed."""
        return Failure.from_proto(self.proto.failure) if self.proto.HasField("failure") else None

    @property
    def usage(self) -> Usage:
        """The run's usage."""
        return Usage.from_proto(self.proto.usage)

    @property
    def create_time(self) -> float:
        """When the run was submitted."""
        return to_seconds(self.proto.create_time)

    @property
    def end_time(self) -> float:
        """When the run ended; 0 before."""
        return to_seconds(self.proto.end_time)

    @property
    def last_seq(self) -> int:
        """The last event of the run."""
        return self.proto.last_seq

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the submitter."""
        return MappingProxyType(dict(self.proto.metadata))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges among the run's roles, as of the submit."""
        return tuple(map(Edge.from_proto, self.proto.edges))

    @property
    def parent_run_id(self) -> str:
        """The run that this one was forked from; empty if none."""
        return self.proto.parent_run_id

    @property
    def questions(self) -> tuple[RunQuestion, ...]:
        """The open questions to people, oldest first."""
        return tuple(map(RunQuestion, self.proto.questions))

    @property
    def closed_questions(self) -> tuple[RunQuestion, ...]:
        """Questions that were answered, timed out or were withdrawn, oldest first, without their texts."""
        return tuple(map(RunQuestion, self.proto.closed_questions))

    @property
    def ratings(self) -> tuple[RunRating, ...]:
        """The ratings by people, oldest first, as `Client.get` returns them."""
        return tuple(map(RunRating, self.proto.ratings))

    @property
    def marks(self) -> tuple[RunMark, ...]:
        """The marks by people, oldest first, as `Client.get` returns them."""
        return tuple(map(RunMark, self.proto.marks))

    @property
    def details_removed(self) -> bool:
        """Whether retention has removed the run's events and recorded calls: only this summary is left."""
        return self.proto.details_removed

    @property
    def plan(self) -> Plan | None:
        """The plan with the states of its steps; None before the first one, and without the strategy `plan`."""
        return Plan.from_proto(self.proto.plan) if self.proto.HasField("plan") else None

    @property
    def truncated(self) -> bool:
        """Whether content was left out because the run is too large for the response. `Client.get` never does."""
        return self.proto.truncated

    @property
    def identity(self) -> str:
        """The identity on whose behalf the run was submitted; empty if the mesh knows no identities."""
        return self.proto.identity

    @property
    def actor(self) -> str:
        """The identity of the caller that submitted the run, if that is another one."""
        return self.proto.actor

    @property
    def trace_id(self) -> str:
        """Id of the run's trace, 32 hexadecimal digits (W3C Trace Context); empty if it belongs to none."""
        return self.proto.trace_id
