"""Plans of runs."""

from __future__ import annotations

from dataclasses import dataclass

from archon import status
from archon.api.common.v1 import common_pb2, plan_pb2
from archon.errors import ArchonError
from archon.types.part import Part, to_parts


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a plan: what is to be done, by which role or capability, and the steps whose results it needs.

    `tool_name` is the only tool that it may use, with `tool_args_json` as arguments, empty if any; `expected_output`
    describes a good answer, `output_schema_json` is its JSON Schema. `confidence` is the planner's, 0 to 1.

    `task_id`, `state`, `result` and `failure` are of the task that executes the step: `state` is its name in lower
    case, such as `completed`, or `canceled` if the step was skipped; empty while there is none.
    """

    step_id: str
    description: str = ""
    expected_output: str = ""
    tool_name: str = ""
    tool_args_json: str = ""
    dependencies: tuple[str, ...] = ()
    role: str = ""
    capability: str = ""
    critical: bool = False
    partial_input: bool = False
    checkpoint: bool = False
    expand: bool = False
    expand_on_failure: bool = False
    exact: bool = False
    output_schema_json: str = ""
    confidence: float = 0.0
    estimated_seconds: float = 0.0
    estimated_cost_micro_usd: int = 0
    task_id: str = ""
    state: str = ""
    result: tuple[Part, ...] = ()
    failure: ArchonError | None = None

    @classmethod
    def from_proto(cls, message: plan_pb2.PlanStep) -> PlanStep:
        """Returns the step that a message has."""
        return cls(
            message.step_id,
            message.description,
            message.expected_output,
            message.tool_name,
            message.tool_args_json,
            tuple(message.dependencies),
            message.role,
            message.capability,
            message.critical,
            message.partial_input,
            message.checkpoint,
            message.expand,
            message.expand_on_failure,
            message.exact,
            message.output_schema_json,
            message.confidence,
            message.estimated_seconds,
            message.estimated_cost_micro_usd,
            message.task_id,
            _state(message.state),
            to_parts(message.result),
            status.from_failure(message.failure) if message.HasField("failure") else None,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a run, and the dependencies among them. `revision` counts from 1, and rises whenever the plan
    changes; `context_json` has the values that templates in arguments may use, as one JSON object; `changes` says what
    was changed so that the plan can be executed, and `change_seq` is the event that changed it last."""

    goal: str
    revision: int = 0
    steps: tuple[PlanStep, ...] = ()
    context_json: str = ""
    changes: tuple[str, ...] = ()
    change_seq: int = 0

    @classmethod
    def from_proto(cls, message: plan_pb2.Plan) -> Plan:
        """Returns the plan that a message has."""
        return cls(
            message.goal,
            message.revision,
            tuple(map(PlanStep.from_proto, message.steps)),
            message.context_json,
            tuple(message.changes),
            message.change_seq,
        )


def _state(number: int) -> str:
    value = common_pb2.TaskState.DESCRIPTOR.values_by_number.get(number)
    return value.name.removeprefix("TASK_STATE_").lower() if value is not None and number else ""
