"""The schema of files that declare workflows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

NAME_PATTERN: Final = r"^[A-Za-z][\w-]*$"
KEY_PATTERN: Final = r"^[A-Za-z_]\w*$"
REFERENCE_PATTERN: Final = r"^[A-Za-z][\w-]*(@[0-9]{1,9})?$"

MAX_RETRIES: Final = 10
"""How often a step may be tried again."""

DEFAULT_MEMBERS: Final = 3
"""Members of a committee or of a swarm."""

MAX_MEMBERS: Final = 19
"""Members of a committee or of a swarm, and copies of a step."""

DEFAULT_TRIES: Final = 3
MAX_TRIES: Final = 20
"""Tries of an item of a swarm."""

MAX_NESTING: Final = 16
"""Blocks of steps within each other, including called workflows."""

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=60)]
VariableName = Annotated[str, Field(pattern=KEY_PATTERN, max_length=60)]
Text = Annotated[str, Field(min_length=1)]

KINDS: Final = ("tool", "role", "capability", "committee", "swarm", "workflow", "approve", "if", "for_each", "parallel")
"""Keys; a step has one of them. A step with `task` alone is for any role, or thinks."""


class Part(BaseModel):
    """Base class of all parts of the file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)


class ParameterPart(Part):
    """A parameter of a workflow. Without a default it is required."""

    type: Literal["string", "integer", "number", "boolean", "list", "object"] = Field(
        default="string", description="the type of the value"
    )
    description: str = Field(default="", description="the purpose of the value")
    default: Any = Field(default=None, description="the value if none is given; without it the parameter is required")
    enum: list[Any] | None = Field(default=None, description="the values that are allowed", min_length=1)

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return "default" not in self.model_fields_set


class ErrorPart(Part):
    """The handling of a failed step: it is tried again, then `then` or `steps`."""

    retry: int = Field(default=0, ge=0, le=MAX_RETRIES, description="how often the step is tried again")
    then: Literal["abort", "continue"] = Field(
        default="abort", description="abort fails the run; continue goes on, and the step has no value"
    )
    steps: list[StepPart] | None = Field(
        default=None, description="steps to execute in its place; they read the error as `error`", min_length=1
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"then": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> ErrorPart:
        if self.steps is not None and "then" in self.model_fields_set:
            raise ValueError("has then or steps, not both")
        return self


class StepPart(Part):
    """A step: one of the KINDS, or a task alone."""

    id: Name | None = Field(default=None, description="the step's id; by default its save_as, or its number")
    tool: Text | None = Field(default=None, description="the tool to call, with `args`")
    role: Text | None = Field(default=None, description="the role that does the `task`")
    capability: Text | None = Field(default=None, description="the capability of the role that does the `task`")
    committee: Text | None = Field(default=None, description="a question that several `members` answer on their own")
    swarm: Text | None = Field(
        default=None, description="the work that several `members` do for each of the `items`, each item once"
    )
    items: Any = Field(default=None, description="the items of a swarm: a list")
    tries: int | None = Field(default=None, ge=1, le=MAX_TRIES, description="how often an item is tried; by default 3")
    members: int | None = Field(default=None, ge=2, le=MAX_MEMBERS, description="how many; by default 3")
    roles: list[Text] | None = Field(
        default=None, description="the roles of the members, in turn; by default they only think", min_length=1
    )
    arbiter: Text | None = Field(default=None, description="the role that decides if the votes do not")
    by: Text | None = Field(default=None, description="the field of JSON answers that is compared")
    weight: Literal["equal", "confidence"] | None = Field(default=None, description="the weight of a vote")
    least: float | None = Field(default=None, ge=0, le=1, description="the part of the votes that decides; 0.5")
    copies: int | None = Field(
        default=None, ge=2, le=MAX_MEMBERS, description="how often the task is done at once; the first result counts"
    )
    hedge_after: Annotated[float, Field(gt=0, le=86_400)] | Literal["p95"] | None = Field(
        default=None,
        description="seconds after which the task is done once more, if it has no result; p95: the measured time of "
        "its role, 10 s while too little is measured",
    )
    bidders: list[Text] | None = Field(
        default=None, description="roles that bid for the task; the one with the best bid does it", min_length=2
    )
    bid_seconds: float | None = Field(
        default=None, gt=0, le=86_400, description="how long bids are waited for; by default 10"
    )
    workflow: Annotated[str, Field(pattern=REFERENCE_PATTERN)] | None = Field(
        default=None, description="another workflow, as NAME or NAME@VERSION, with `args` as its parameters"
    )
    approve: Text | None = Field(default=None, description="a question to a person: approve goes on, reject fails")
    approvers: list[Text] | None = Field(default=None, description="who may answer; by default anyone")
    timeout: float | None = Field(default=None, description="seconds for the answer, 0 for no limit; by default 300")
    on_timeout: Literal["abort", "default", "escalate"] | None = Field(
        default=None, description="the action without an answer in time; by default abort"
    )
    default: Text | None = Field(default=None, description="the answer if none comes in time")
    task: Text | None = Field(default=None, description="the work of the step")
    expected_output: str | None = Field(default=None, description="a description of a good answer")
    output: dict[str, Any] | None = Field(
        default=None, description="the JSON Schema of the result, which later steps read as a value"
    )
    args: dict[str, Any] | None = Field(default=None, description="the arguments of the tool or workflow")
    save_as: VariableName | None = Field(default=None, description="the name under which later steps read the result")
    on_error: ErrorPart | None = Field(default=None, description="the handling of a failure; by default abort")
    if_: Any = Field(default=None, alias="if", description="a condition")
    then: list[StepPart] | None = Field(default=None, description="the steps if the condition is true")
    else_: list[StepPart] | None = Field(default=None, alias="else", description="the steps if it is not")
    for_each: Any = Field(default=None, description="a list; the steps are executed for each of its items")
    as_: VariableName | None = Field(default=None, alias="as", description="the name of the item; by default item")
    steps: list[StepPart] | None = Field(default=None, description="the steps for each item", min_length=1)
    in_order: bool = Field(default=False, description="one item after the other; by default all at once")
    parallel: list[StepPart] | None = Field(
        default=None, description="steps that are executed at the same time", min_length=1
    )

    @property
    def kind(self) -> str:
        """The key of KINDS that the step has, or `task`."""
        given = self._given()
        return next((kind for kind in KINDS if kind in given), "task")

    @model_validator(mode="after")
    def _check(self) -> StepPart:
        given = self._given()
        kinds = [kind for kind in KINDS if kind in given]
        if len(kinds) > 1:
            raise ValueError(f"has {' and '.join(kinds)}: a step has one of them")
        if not kinds and "task" not in given:
            raise ValueError(f"has none of {', '.join((*KINDS, 'task'))}")
        kind = kinds[0] if kinds else "task"
        for key in _NEEDED.get(kind, ()):
            if key not in given:
                raise ValueError(f"a step with {kind} needs {key}")
        for key in sorted(given - {kind, *_ALWAYS, *_ALLOWED[kind]}):
            raise ValueError(f"{key} does not belong to a step with {kind}")
        if len(several := [key for key in _SEVERAL if key in given]) > 1:
            raise ValueError(f"has {' and '.join(several)}: a step has one of them")
        if "bid_seconds" in given and "bidders" not in given:
            raise ValueError("a step with bid_seconds needs bidders")
        return self

    def _given(self) -> set[str]:
        fields = type(self).model_fields
        return {fields[name].alias or name for name in self.model_fields_set if getattr(self, name) is not None}

    def blocks(self) -> Iterator[tuple[str, list[StepPart]]]:
        """Yields the lists of steps within the step, with their keys."""
        for key, steps in (
            ("then", self.then),
            ("else", self.else_),
            ("steps", self.steps),
            ("parallel", self.parallel),
        ):
            if steps:
                yield key, steps


class WorkflowFile(Part):
    """The content of a file."""

    name: Name = Field(description="the workflow's name")
    version: int = Field(default=1, ge=1, le=999_999_999, description="its version; the highest is run by default")
    description: str = Field(default="", description="its purpose; planners choose workflows by it")
    parameters: dict[VariableName, ParameterPart] = Field(default_factory=dict, description="its parameters by name")
    steps: list[StepPart] = Field(description="the steps, executed one after the other", min_length=1)


def default_id(index: int) -> str:
    """Returns the id of a step without id and save_as, by its place in its list from 0."""
    return f"step-{index + 1}"


TERMS: Final = ("approvers", "timeout", "on_timeout", "default")
"""Keys of a step that asks a person."""

_ALWAYS: Final = ("id", "save_as")
_WORK: Final = ("task", "expected_output", "output", "on_error")
_SEVERAL: Final = ("copies", "hedge_after", "bidders")
_ALLOWED: Final = {
    "tool": ("args", *_WORK),
    "role": (*_WORK, *_SEVERAL, "bid_seconds"),
    "capability": (*_WORK, *_SEVERAL, "bid_seconds"),
    "task": (*_WORK, *_SEVERAL, "bid_seconds"),
    "committee": ("members", "roles", "arbiter", "by", "weight", "least", "output", "on_error"),
    "swarm": ("items", "members", "roles", "tries", "on_error"),
    "workflow": ("args",),
    "approve": (*TERMS, "on_error"),
    "if": ("then", "else"),
    "for_each": ("as", "steps", "in_order"),
    "parallel": (),
}
_NEEDED: Final = {
    "swarm": ("items",),
    "role": ("task",),
    "capability": ("task",),
    "if": ("then",),
    "for_each": ("steps",),
}

ErrorPart.model_rebuild()

KEYS: Final = tuple(
    sorted(
        {
            field.alias or name
            for part in (ParameterPart, ErrorPart, StepPart, WorkflowFile)
            for name, field in part.model_fields.items()
        }
    )
)
"""All keys of a file."""
