"""What an attempt was given: read, and never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from archon.agent.history import history_from_proto
from archon.agent.values import ContextItem, DelegationTarget, HistoryMessage
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.wire import text_of


class Assigned:
    """One attempt at one task, as it was dispatched."""

    def __init__(self, ref: common_pb2.TaskRef, assigned: agent_pb2.AssignTask, role: str, *, stateful: bool) -> None:
        self._ref = ref
        self._assigned = assigned
        self.role = role
        self.remembers = stateful and bool(assigned.conversation_id)
        """True where the role is stateful and the task belongs to a session: what its answer adds is kept."""

    @property
    def task_id(self) -> str:
        """The task, the same for all attempts."""
        return self._ref.task_id

    @property
    def run_id(self) -> str:
        """The run that the task belongs to."""
        return self._ref.run_id

    @property
    def attempt(self) -> int:
        """From 1; one more with each dispatch."""
        return self._ref.attempt

    @property
    def parts(self) -> Sequence[common_pb2.Part]:
        """What to work on, whole."""
        return self._assigned.input

    @property
    def text(self) -> str:
        """What to work on: its text."""
        return text_of(self._assigned.input)

    @property
    def context(self) -> list[ContextItem]:
        """Answers of the roles that this one depends on, in dependency order."""
        return [
            ContextItem(item.ref.role, text_of(item.parts), item.ref.version, dict(item.metadata), item)
            for item in self._assigned.context
        ]

    @property
    def awareness(self) -> str:
        """What a coordinating role should know of the others; empty for all other roles."""
        return self._assigned.awareness

    @property
    def delegation_targets(self) -> list[DelegationTarget]:
        """The roles that a coordinating role may delegate to, in dependency order; empty for all other roles."""
        return [DelegationTarget(one.role, one.description) for one in self._assigned.delegation_targets]

    @property
    def delegation_chain(self) -> tuple[str, ...]:
        """The roles that wait for this task, outermost first."""
        return tuple(self._assigned.delegation_chain)

    @property
    def budget(self) -> common_pb2.Budget | None:
        """What the attempt was given to begin with of the run's budget; None where the run has none."""
        return self._assigned.budget if self._assigned.HasField("budget") else None

    @property
    def expected_output(self) -> str:
        """What a good answer looks like; empty where nobody said."""
        return self._assigned.expected_output

    @property
    def trace(self) -> common_pb2.TraceContext:
        """Where the task belongs in a trace (W3C Trace Context)."""
        return self._assigned.trace

    @property
    def metadata(self) -> Mapping[str, str]:
        """The submitter's remarks."""
        return self._assigned.metadata

    @property
    def idempotency_key(self) -> str:
        """The same for all attempts: for calls to systems that deduplicate."""
        return self._assigned.idempotency_key

    @property
    def conversation_id(self) -> str:
        """Stands for the session and the role; empty where the task belongs to no session."""
        return self._assigned.conversation_id

    @property
    def conversation_version(self) -> int:
        """Of `history`: how many turns there were before, from the first."""
        return self._assigned.conversation_version

    @property
    def history(self) -> list[HistoryMessage]:
        """What a stateful role remembers of the session, oldest first; of a long one the newest 1 MiB."""
        return [history_from_proto(one) for one in self._assigned.history]

    @property
    def checkpoint(self) -> bytes:
        """What the last attempt that left one left; empty where none did."""
        return self._assigned.resume.checkpoint

    @property
    def inputs(self) -> Sequence[common_pb2.Part]:
        """What people have answered to the questions of earlier attempts, in order."""
        return self._assigned.resume.inputs

    @property
    def input_text(self) -> str:
        """The text among them, joined."""
        return text_of(self.inputs)

    @property
    def used(self) -> list[common_pb2.MemoryRef]:
        """Which upstream answers it was given."""
        return [item.ref for item in self._assigned.context]
