"""The assignment of an attempt, as its handler reads it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from archon.agent.bid_request import BidRequest
from archon.agent.history import history_from_proto
from archon.agent.plan_request import PlanRequest
from archon.agent.question import GivenAnswer, answer_from_proto
from archon.agent.values import (
    SESSION_KEY,
    ContextItem,
    DelegationTarget,
    HistoryMessage,
    TraceContext,
)
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.propagation import PropagationPolicy
from archon.types.breakpoint import RunBreakpoint
from archon.types.budget import Budget
from archon.types.memory_ref import MemoryRef
from archon.types.part import Part, to_parts
from archon.wire import policy_from_proto, text_of


class Assignment:
    """The input, the context, the limits and the place of one attempt at a task. Values are converted when they are
    read."""

    _ref: common_pb2.TaskRef
    _assigned: agent_pb2.AssignTask
    _context: tuple[common_pb2.ContextItem, ...]
    """The answers of other roles: the assigned ones, replaced by newer ones."""

    @property
    def proto(self) -> agent_pb2.AssignTask:
        """The assignment as a message, without the answers that came later. It must not be changed."""
        return self._assigned

    @property
    def task_id(self) -> str:
        """The task's id, the same for all attempts."""
        return self._ref.task_id

    @property
    def run_id(self) -> str:
        """The id of the run that the task belongs to."""
        return self._ref.run_id

    @property
    def attempt(self) -> int:
        """The number of this attempt: from 1, one more with each dispatch."""
        return self._ref.attempt

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the input."""
        return to_parts(self._assigned.input)

    @property
    def text(self) -> str:
        """The text of the input."""
        return text_of(self._assigned.input)

    @property
    def context(self) -> list[ContextItem]:
        """The answers of the roles that this one depends on, in dependency order: of each role the newest one that has
        arrived. Roles that had none when the task was dispatched come last."""
        return [
            ContextItem(item.ref.role, text_of(item.parts), item.ref.version, dict(item.metadata), item)
            for item in self._context
        ]

    @property
    def awareness(self) -> str:
        """A text about the other roles, for a coordinator; empty for all other roles."""
        return self._assigned.awareness

    @property
    def delegation_targets(self) -> list[DelegationTarget]:
        """The roles that a coordinator may delegate to, in dependency order; empty for all other roles."""
        return [DelegationTarget(target.role, target.description) for target in self._assigned.delegation_targets]

    @property
    def delegation_chain(self) -> tuple[str, ...]:
        """The roles that wait for this task, outermost first."""
        return tuple(self._assigned.delegation_chain)

    @property
    def budget(self) -> Budget | None:
        """The first slice of the run's budget that the attempt may spend, or None if the run has no budget."""
        return Budget.from_proto(self._assigned.budget) if self._assigned.HasField("budget") else None

    @property
    def expected_output(self) -> str:
        """A description of a good answer; may be empty."""
        return self._assigned.expected_output

    @property
    def output_schema_json(self) -> str:
        """The JSON Schema of the answer, which is then one JSON part (`Part(data_json=...)`); empty if the step that
        the task executes has none."""
        return self._assigned.output_schema_json

    @property
    def refusal(self) -> str:
        """Why the result of the attempt before was refused: it does not match `expected_output` or the schema.
        Empty if it was not."""
        return self._assigned.refusal

    @property
    def step_id(self) -> str:
        """The step of the plan that the task executes; empty if it executes none."""
        return self._assigned.step_id

    @property
    def breakpoints(self) -> tuple[str, ...]:
        """The breakpoints of the run at calls of tools and models, such as `tool:pay`: a runtime that holds asks a
        person before such a call."""
        return tuple(RunBreakpoint(each).text for each in self._assigned.breakpoints)

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """The only tools that the task may use, by name; empty if it may use any."""
        return tuple(self._assigned.allowed_tools)

    @property
    def exact(self) -> bool:
        """Whether the allowed tool must be called with `tool_args_json`, or the task fails: a model must not be asked
        for other arguments."""
        return self._assigned.exact

    @property
    def tool_args_json(self) -> str:
        """The arguments of the step's tool as one JSON object; empty if there are none."""
        return self._assigned.tool_args_json

    @property
    def plan_request(self) -> PlanRequest | None:
        """The request to the planner of a run, None for any other task. The answer to it is a plan as one JSON object;
        if it says `synthesise`, the answer of the run."""
        assigned = self._assigned
        return PlanRequest(assigned.plan_request) if assigned.HasField("plan_request") else None

    @property
    def bid_request(self) -> BidRequest | None:
        """The step that a bid is asked for, which is not executed yet; None for any other task."""
        assigned = self._assigned
        return BidRequest.from_proto(assigned.bid_request) if assigned.HasField("bid_request") else None

    @property
    def trace(self) -> TraceContext:
        """The task's place in a trace."""
        return TraceContext.from_proto(self._assigned.trace)

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata that the run was submitted with."""
        return self._assigned.metadata

    @property
    def idempotency_key(self) -> str:
        """The same for all attempts: a key for calls to systems that deduplicate."""
        return self._assigned.idempotency_key

    @property
    def conversation_id(self) -> str:
        """The id of the role's conversation in the session; empty if the task belongs to no session."""
        return self._assigned.conversation_id

    @property
    def session_id(self) -> str:
        """The id of the run's session; empty if there is none. Steps of a plan have it, too, without a conversation."""
        return self.conversation_id.rpartition("/")[0] or self.metadata.get(SESSION_KEY, "")

    @property
    def conversation_version(self) -> int:
        """The version of `history`: how many turns the conversation has had."""
        return self._assigned.conversation_version

    @property
    def history(self) -> list[HistoryMessage]:
        """The session history of a stateful role, oldest message first; at most the newest 1 MiB."""
        return [history_from_proto(message) for message in self._assigned.history]

    @property
    def checkpoint(self) -> bytes:
        """The newest checkpoint of earlier attempts; empty if there is none."""
        return self._assigned.resume.checkpoint

    @cached_property
    def inputs(self) -> tuple[Part, ...]:
        """The answers of people to the questions of earlier attempts, in order."""
        return to_parts(self._assigned.resume.inputs)

    @property
    def answers(self) -> dict[str, GivenAnswer]:
        """The answers of people to questions of this task, by the ids of the questions."""
        return {answer.input_id: answer_from_proto(answer) for answer in self._assigned.resume.answers}

    @property
    def input_text(self) -> str:
        """The text of `inputs`."""
        return text_of(self._assigned.resume.inputs)

    @property
    def used(self) -> list[MemoryRef]:
        """References to the upstream answers in `context`."""
        return [MemoryRef.from_proto(item.ref) for item in self._context]

    @property
    def publish_policies(self) -> list[PropagationPolicy]:
        """The policies wider than FINAL_RESPONSE_ONLY of edges from this role to roles of the run, narrowest first:
        those for which `Answer.items` has readers."""
        return [policy_from_proto(policy) for policy in self._assigned.publish_policies]
