"""Plans of runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from archon.api.common.v1 import plan_pb2
from archon.errors import InvalidArgument
from archon.types.failure import Failure
from archon.types.part import Part, to_messages, to_parts
from archon.types.task_state import TaskState


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a plan: the work, the role for it, and the steps whose results it needs.

    `expected_output` describes a good answer. `tool_name` is the only tool that the step may use, empty for any;
    `tool_args_json` are its arguments: one JSON object, with {key} templates for the results of dependencies. An
    `exact` step calls the tool with these arguments and asks no model. The result has the JSON Schema
    `output_schema_json`, if there is one. `capability` is one that the instance must have.

    If a `critical` step fails, the plan is made anew at once. A step with `partial_input` may start if a dependency has
    failed. In the place of a step with `expand` come those that the planner replies, once its dependencies have
    completed; with `expand_on_failure` if it fails. A rule has people check the answers of steps with `checkpoint`.

    A step with a `quorum` starts as soon as that many of its dependencies have completed (0: all); the others are
    cancelled, unless another step needs them. It starts `delay_seconds` after that, or with a
    `delay_quantile` of 0.95 after the measured time of the role. The result of a step with a
    `decision` is chosen from the results of its dependencies, by this rule with the arguments in `tool_args_json`; if
    the rule does not decide, the `role` does. A step fails `timeout_seconds` after it may start (0: no limit). The
    dependency `assigned_by` is one with a decision: who made the chosen result executes the step. The result of a step
    with `bid_for` is a bid for the step with this id.

    `confidence` is the planner's, from 0 to 1: a step with a low one is planned anew. Estimates are 0 if unknown. The
    step's outcome is in `task_id`, `state` (UNSPECIFIED before there is a task), `result` and `failure`.
    """

    step_id: str
    description: str
    role: str = ""
    tool_name: str = ""
    dependencies: tuple[str, ...] = ()
    expected_output: str = ""
    tool_args_json: str = ""
    output_schema_json: str = ""
    capability: str = ""
    critical: bool = False
    partial_input: bool = False
    checkpoint: bool = False
    expand: bool = False
    expand_on_failure: bool = False
    exact: bool = False
    quorum: int = 0
    delay_seconds: float = 0.0
    delay_quantile: float = 0.0
    decision: str = ""
    timeout_seconds: float = 0.0
    assigned_by: str = ""
    bid_for: str = ""
    confidence: float = 1.0
    estimated_seconds: float = 0.0
    estimated_cost_micro_usd: int = 0
    task_id: str = ""
    state: TaskState = TaskState.UNSPECIFIED
    result: tuple[Part, ...] = ()
    failure: Failure | None = None

    @property
    def proto(self) -> plan_pb2.PlanStep:
        """The step as a message."""
        return plan_pb2.PlanStep(
            step_id=self.step_id,
            description=self.description,
            expected_output=self.expected_output,
            tool_name=self.tool_name,
            tool_args_json=self.tool_args_json,
            dependencies=self.dependencies,
            role=self.role,
            capability=self.capability,
            critical=self.critical,
            partial_input=self.partial_input,
            confidence=self.confidence,
            estimated_seconds=self.estimated_seconds,
            estimated_cost_micro_usd=self.estimated_cost_micro_usd,
            task_id=self.task_id,
            state=self.state.proto,
            result=to_messages(self.result),
            failure=None if self.failure is None else self.failure.proto,
            checkpoint=self.checkpoint,
            expand=self.expand,
            expand_on_failure=self.expand_on_failure,
            output_schema_json=self.output_schema_json,
            exact=self.exact,
            quorum=self.quorum,
            delay_seconds=self.delay_seconds,
            delay_quantile=self.delay_quantile,
            decision=self.decision,
            timeout_seconds=self.timeout_seconds,
            assigned_by=self.assigned_by,
            bid_for=self.bid_for,
        )

    @classmethod
    def from_proto(cls, message: plan_pb2.PlanStep) -> PlanStep:
        """Returns the step that a message has."""
        return cls(
            step_id=message.step_id,
            description=message.description,
            role=message.role,
            tool_name=message.tool_name,
            dependencies=tuple(message.dependencies),
            expected_output=message.expected_output,
            tool_args_json=message.tool_args_json,
            output_schema_json=message.output_schema_json,
            capability=message.capability,
            critical=message.critical,
            partial_input=message.partial_input,
            checkpoint=message.checkpoint,
            expand=message.expand,
            expand_on_failure=message.expand_on_failure,
            exact=message.exact,
            quorum=message.quorum,
            delay_seconds=message.delay_seconds,
            delay_quantile=message.delay_quantile,
            decision=message.decision,
            timeout_seconds=message.timeout_seconds,
            assigned_by=message.assigned_by,
            bid_for=message.bid_for,
            confidence=message.confidence,
            estimated_seconds=message.estimated_seconds,
            estimated_cost_micro_usd=message.estimated_cost_micro_usd,
            task_id=message.task_id,
            state=TaskState.from_proto(message.state),
            result=to_parts(message.result),
            failure=Failure.from_proto(message.failure) if message.HasField("failure") else None,
        )

    def document(self) -> dict[str, Any]:
        """Returns the step's work in the JSON of planners. Raises ValueError if `tool_args_json` or
        `output_schema_json` is not JSON."""
        return {
            "id": self.step_id,
            "description": self.description,
            "expected_output": self.expected_output,
            "tool_name": self.tool_name,
            "tool_args": json.loads(self.tool_args_json or "{}"),
            "dependencies": list(self.dependencies),
            "role": self.role,
            "capability": self.capability,
            "critical": self.critical,
            "partial_input": self.partial_input,
            "checkpoint": self.checkpoint,
            "expand": self.expand,
            "expand_on_failure": self.expand_on_failure,
            "confidence": self.confidence,
            "exact": self.exact,
            "quorum": self.quorum,
            "delay_seconds": self.delay_seconds,
            "delay_quantile": self.delay_quantile,
            "decision": self.decision,
            "timeout_seconds": self.timeout_seconds,
            "assigned_by": self.assigned_by,
            "bid_for": self.bid_for,
            "output_schema": json.loads(self.output_schema_json or "{}"),
            "estimated_seconds": self.estimated_seconds,
            "estimated_cost_micro_usd": self.estimated_cost_micro_usd,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. `reason`: why the planner replaced the one before, if it was asked whether that leads to the goal, as an
    event says.

    `context_json` has values for templates in the arguments of steps: one JSON object. `changes` lists the changes
    that made the plan executable. `change_seq` is the event that changed the plan last; 0 if no run has it.
    """

    revision: int
    goal: str
    steps: tuple[PlanStep, ...]
    reason: str = ""
    context_json: str = ""
    changes: tuple[str, ...] = ()
    change_seq: int = 0

    @property
    def proto(self) -> plan_pb2.Plan:
        """The plan as a message, which has no `reason`."""
        return plan_pb2.Plan(
            goal=self.goal,
            revision=self.revision,
            steps=[step.proto for step in self.steps],
            context_json=self.context_json,
            changes=self.changes,
            change_seq=self.change_seq,
        )

    @classmethod
    def from_proto(cls, message: plan_pb2.Plan, reason: str = "") -> Plan:
        """Returns the plan that a message has."""
        return cls(
            message.revision,
            message.goal,
            tuple(map(PlanStep.from_proto, message.steps)),
            reason,
            message.context_json,
            tuple(message.changes),
            message.change_seq,
        )

    def to_json(self) -> str:
        """Returns the plan in the JSON that planners reply and `Client.edit_plan` sends, without the states of steps.
        Raises InvalidArgument if arguments, schemas or the context are not JSON."""
        try:
            document = {"goal": self.goal, "subtasks": [step.document() for step in self.steps]}
            return json.dumps(document | {"context": json.loads(self.context_json or "{}")}, ensure_ascii=False)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"the plan has a value that is not JSON: {error}") from None
