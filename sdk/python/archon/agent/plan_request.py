"""Requests to the planner of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import plan_pb2
from archon.api.registry.v1 import registry_pb2
from archon.registry import Capability, Profile, Tool
from archon.registry.convert import registration_from_proto
from archon.types.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """A role that steps of a plan may go to. `profile` has measured averages in place of the role's estimates, once
    enough of its tasks have completed; it is None if nothing is known."""

    role: str
    description: str = ""
    capabilities: Sequence[Capability] = ()
    tools: Sequence[Tool] = ()
    profile: Profile | None = None

    @classmethod
    def from_proto(cls, message: plan_pb2.PlanTarget) -> PlanTarget:
        """Returns the role that a message has."""
        same = registry_pb2.Registration(
            instance_id=message.role, role=message.role, capabilities=message.capabilities, tools=message.tools
        )
        if message.HasField("profile"):
            same.profile.CopyFrom(message.profile)
        read = registration_from_proto(same)
        return cls(message.role, message.description, read.capabilities, read.tools, read.profile)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request to the planner of a run: for a plan; with `expand` for the steps that take the place of others; or,
    with `synthesise`, for the answer of the run. Its values are converted when they are read."""

    proto: agent_pb2.PlanRequest

    @property
    def targets(self) -> tuple[PlanTarget, ...]:
        """The roles that steps may go to, in the order of their names."""
        return tuple(map(PlanTarget.from_proto, self.proto.targets))

    @property
    def max_steps(self) -> int:
        """The maximum number of steps, without those that have ended."""
        return self.proto.max_steps

    @property
    def revision(self) -> int:
        """The number of the plan to make, from 1."""
        return self.proto.revision

    @property
    def previous(self) -> Plan | None:
        """The plan to replace, with the states, results and failures of its steps, or with `synthesise` the one that
        was executed; None before the first plan."""
        return Plan.from_proto(self.proto.previous) if self.proto.HasField("previous") else None

    @property
    def reason(self) -> str:
        """Why the plan must be made anew; empty for the first plan."""
        return self.proto.reason

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults in the reply of the previous attempt, a line each."""
        return tuple(self.proto.faults)

    @property
    def synthesise(self) -> bool:
        """Whether one answer to the goal is asked for, from the results in `TaskContext.context`, and no plan."""
        return self.proto.synthesise

    @property
    def align(self) -> bool:
        """Whether it is asked if the previous plan, with its results so far, still leads to the goal: the reply is
        `{"aligned": true}`, or another plan with a "reason"."""
        return self.proto.align

    @property
    def expand(self) -> tuple[str, ...]:
        """The ids of the steps of the previous plan in whose place steps are asked for."""
        return tuple(self.proto.expand)
