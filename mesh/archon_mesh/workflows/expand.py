"""Expands a workflow: makes the subtasks that can be known, given the results so far.

A pure function of the workflow, its arguments and the results: called again with more results, it returns the same
subtasks and further ones. A step that reads a result before it is there is a subtask with `expand`, which depends on
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.threads import on_thread
from archon_mesh.core.shorten import shortened
from archon_mesh.engine.plan import MAX_PLAN_SUBTASKS, SubTask, SubTaskStatus, Task
from archon_mesh.engine.plan.templates import escaped
from archon_mesh.planning.patterns import BID_SECONDS, MAJORITY, P95, auction, committee, hedged, redundant
from archon_mesh.planning.swarm import swarm
from archon_mesh.workflows.approval import APPROVE
from archon_mesh.workflows.load import templates_of
from archon_mesh.workflows.parameters import checked_arguments
from archon_mesh.workflows.sandbox import decoded, from_tool, one_expansion, template
from archon_mesh.workflows.schema import (
    DEFAULT_MEMBERS,
    DEFAULT_TRIES,
    MAX_NESTING,
    TERMS,
    ErrorPart,
    StepPart,
    default_id,
)
from archon_mesh.workflows.workflow import Workflow

MAX_ITEMS: Final = 200
"""Items of a for_each."""

MAX_EVALUATED: Final = 20_000
"""Steps that are evaluated in one expansion, those included that make no subtask."""

MAX_SHOWN: Final = 200
"""Characters of a template in the description of a step that is not known yet."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended: with a result, or with the message of an error. The value of an `exact` step has its type; of
    any other one it is a model's text."""

    value: Any = None
    error: str | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """A value that is not known yet. `ids` are the steps that have to complete before."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expansion:
    """The known part of a workflow: its subtasks, and the value of its last step, which may be Later."""

    subtasks: tuple[SubTask, ...]
    value: Any


def expand(
    workflow: Workflow,
    arguments: Mapping[str, Any],
    results: Mapping[str, StepResult],
    *,
    max_steps: int = MAX_PLAN_SUBTASKS,
) -> Expansion:
    """Returns the subtasks that are known with these results, by the ids of their steps.

    Raises InvalidArgument if the arguments are wrong, a template fails, or there are more than `max_steps` subtasks;
    ResourceExhausted and Unavailable if there is no process for a template. A template may block for seconds.
    """
    values = checked_arguments(workflow.reference, workflow.parameters, arguments)
    with one_expansion() as check_time:
        run = _Run(results, max_steps, check_time)
        flow = run.block(_Scope(workflow, values), workflow.steps, ())
    return Expansion(tuple(run.subtasks), flow.value)


async def expand_on_thread(
    workflow: Workflow,
    arguments: Mapping[str, Any],
    results: Mapping[str, StepResult],
    *,
    max_steps: int = MAX_PLAN_SUBTASKS,
) -> Expansion:
    """As `expand`, without blocking the event loop."""
    expansion, error = await on_thread(lambda: expand(workflow, arguments, results, max_steps=max_steps), "expand")
    if error is not None:
        raise error
    assert isinstance(expansion, Expansion)
    return expansion


def results_of(task: Task) -> dict[str, StepResult]:
    """Returns the results of the subtasks that have ended."""
    found: dict[str, StepResult] = {}
    for subtask in task.subtasks:
        if subtask.status is SubTaskStatus.COMPLETED:
            found[subtask.id] = StepResult(subtask.result, exact=subtask.exact)
        elif subtask.status is SubTaskStatus.FAILED:
            found[subtask.id] = StepResult(error=str(subtask.result or "it failed"))
    return found


@dataclass(frozen=True, slots=True)
class _Scope:
    """The workflow of a block, the values that its templates read, and where it stands."""

    workflow: Workflow
    values: Mapping[str, Any]
    prefix: str = ""
    depth: int = 0

    def within(self, part: str, values: Mapping[str, Any] | None = None) -> _Scope:
        """The scope of a block of a step."""
        if self.depth >= MAX_NESTING:
            raise InvalidArgument(f"step {self.prefix}{part}: steps are nested more than {MAX_NESTING} levels deep")
        return replace(
            self, values={**self.values, **(values or {})}, prefix=f"{self.prefix}{part}/", depth=self.depth + 1
        )


@dataclass(frozen=True, slots=True)
class _Flow:
    """The state after a step: the steps that the next one depends on, the value, and the names that it made known."""

    after: tuple[str, ...]
    value: Any = None
    names: Mapping[str, Any] = field(default_factory=dict)


class _Run:
    """Collects the subtasks of one expansion."""

    def __init__(self, results: Mapping[str, StepResult], max_steps: int, check_time: Callable[[], None]) -> None:
        self._results = results
        self._max_steps = max_steps
        self._check_time = check_time
        self._evaluated = 0
        self.subtasks: list[SubTask] = []

    def block(self, scope: _Scope, steps: Sequence[StepPart], after: tuple[str, ...]) -> _Flow:
        """Expands steps that follow each other."""
        flow = _Flow(after)
        names: dict[str, Any] = {}
        for index, step in enumerate(steps):
            flow = self._step(replace(scope, values={**scope.values, **names}), step, index, flow.after)
            names |= flow.names
        return _Flow(flow.after, flow.value, names)

    def _step(self, scope: _Scope, step: StepPart, index: int, after: tuple[str, ...]) -> _Flow:
        name = step.id or step.save_as or default_id(index)
        try:
            self._count()
            flow = self._expanded(scope, step, name, after)
        except InvalidArgument as error:
            if error.metadata.get("step"):
                raise
            id_ = scope.prefix + name
            message = f"workflow {scope.workflow.reference}, step {id_}: {error.message}"
            raise InvalidArgument(message, metadata={"step": id_}) from None
        saved = {step.save_as: flow.value} if step.save_as else {}
        return replace(flow, names={**flow.names, **saved})

    def _count(self) -> None:
        """Conditions within loops may make no subtask, and be evaluated again and again."""
        self._evaluated += 1
        if self._evaluated > MAX_EVALUATED:
            raise InvalidArgument(f"more than {MAX_EVALUATED:,} steps and conditions are evaluated")
        self._check_time()

    def _expanded(self, scope: _Scope, step: StepPart, name: str, after: tuple[str, ...]) -> _Flow:
        id_ = scope.prefix + name
        if waits_for := _later(_read_by(step), scope.values):
            return self._place(step, id_, tuple(dict.fromkeys((*after, *waits_for))))
        match step.kind:
            case "if":
                return self._if(scope, step, name, after)
            case "for_each":
                return self._for_each(scope, step, name, after)
            case "parallel":
                return self._parallel(scope, step, name, after)
            case "workflow":
                return self._call(scope, step, name, after)
        return self._leaf(scope, step, name, after)

    def _place(self, step: StepPart, id_: str, dependencies: tuple[str, ...]) -> _Flow:
        """A step that reads a value that is not known yet: the planner is asked for it later."""
        place = SubTask(id_, _described(step), "", step.tool or "", dependencies=dependencies, expand=True)
        self._add(replace(place, role=step.role or "", capability=step.capability or ""))
        later = Later((id_,))
        return _Flow((id_,), later, dict.fromkeys(_saved_within(step), later))

    def _if(self, scope: _Scope, step: StepPart, name: str, after: tuple[str, ...]) -> _Flow:
        is_true = step.if_ if isinstance(step.if_, bool) else template(step.if_).is_true(scope.values)
        steps = step.then if is_true else step.else_
        return self.block(scope.within(name), steps or (), after)

    def _for_each(self, scope: _Scope, step: StepPart, name: str, after: tuple[str, ...]) -> _Flow:
        items = _filled(step.for_each, scope.values)
        if not isinstance(items, list):
            raise InvalidArgument(f"for_each: the value is {type(items).__name__}, not a list")
        if len(items) > MAX_ITEMS:
            raise InvalidArgument(f"for_each: the list has {len(items):,} items, at most {MAX_ITEMS}")
        flows = []
        before = after
        for number, item in enumerate(items, 1):
            loop = {"index": number, "length": len(items)}
            inner = scope.within(f"{name}-{number}", {step.as_ or "item": item, "loop": loop})
            flows.append(self.block(inner, step.steps or (), before))
            before = flows[-1].after if step.in_order else before
        # A sequence ends with its last item, parallel items with all.
        ends = flows[-1:] if step.in_order else flows
        return _Flow(_joined(ends, after), _collected([flow.value for flow in flows]))

    def _parallel(self, scope: _Scope, step: StepPart, name: str, after: tuple[str, ...]) -> _Flow:
        inner = scope.within(name)
        flows = [self._step(inner, each, index, after) for index, each in enumerate(step.parallel or ())]
        names = {name: value for flow in flows for name, value in flow.names.items()}
        return _Flow(_joined(flows, after), _collected([flow.value for flow in flows]), names)

    def _call(self, scope: _Scope, step: StepPart, name: str, after: tuple[str, ...]) -> _Flow:
        assert step.workflow is not None
        called = scope.workflow.calls[step.workflow]
        given = _filled(step.args or {}, scope.values)
        values = checked_arguments(called.reference, called.parameters, given)
        inner = replace(scope.within(name), workflow=called, values=values)
        return replace(self.block(inner, called.steps, after), names={})

    def _leaf(self, scope: _Scope, step: StepPart, name: str, after: tuple[str, ...]) -> _Flow:
        """A step that is executed itself: its first attempt, and the steps after failed attempts."""
        on_error = step.on_error or ErrorPart()
        goes_on = on_error.then == "continue" or on_error.steps is not None
        first = scope.prefix + name
        for number in range(1, on_error.retry + 2):
            id_ = first if number == 1 else f"{first}~{number}"
            is_last = number == on_error.retry + 1
            handled = goes_on or not is_last
            *members, subtask = _subtasks(step, id_, scope.values, after)
            for member in members:
                self._add(member)
            self._add(replace(subtask, critical=not handled, expand_on_failure=handled))
            result = self._results.get(id_)
            if result is None:
                return _Flow((id_,), Later((id_,)))
            if result.error is None:
                return _Flow((id_,), from_tool(result.value) if result.exact else decoded(result.value))
            if not handled:
                return _Flow((id_,), Later((id_,)))
        if on_error.steps is None:
            return _Flow(after)
        error = {"message": result.error if result else "", "step": first}
        return replace(self.block(scope.within(f"{name}/on_error", {"error": error}), on_error.steps, after), names={})

    def _add(self, subtask: SubTask) -> None:
        if len(self.subtasks) >= self._max_steps:
            raise InvalidArgument(f"the workflow has more than {self._max_steps:,} steps")
        self.subtasks.append(subtask)


def _subtasks(step: StepPart, id_: str, values: Mapping[str, Any], after: tuple[str, ...]) -> tuple[SubTask, ...]:
    """The subtasks of a step whose values are all known; the last one has its id and its result."""
    if step.committee is not None:
        return committee(
            template(step.committee).render(values),
            members=step.members or DEFAULT_MEMBERS,
            roles=step.roles or ("",),
            id=id_,
            dependencies=after,
            arbiter=step.arbiter or "",
            by=step.by or "",
            weight=step.weight or "equal",
            least=MAJORITY if step.least is None else step.least,
            output_schema=step.output,
        )
    if step.swarm is not None:
        items = _filled(step.items, values)
        if not isinstance(items, list):
            raise InvalidArgument(f"items: the value is {type(items).__name__}, not a list")
        return swarm(
            template(step.swarm).render(values),
            items=items,
            members=step.members or DEFAULT_MEMBERS,
            roles=step.roles or ("",),
            tries=step.tries or DEFAULT_TRIES,
            id=id_,
            dependencies=after,
        )
    subtask = replace(_subtask(step, id_, values), dependencies=after)
    if step.copies is not None:
        return redundant(subtask, step.copies)
    if step.bidders is not None:
        return auction(subtask, roles=step.bidders, seconds=step.bid_seconds or BID_SECONDS)
    if step.hedge_after == P95:
        return hedged(subtask, after=P95)
    return hedged(subtask, float(step.hedge_after)) if step.hedge_after is not None else (subtask,)


def _subtask(step: StepPart, id_: str, values: Mapping[str, Any]) -> SubTask:
    """The subtask of a step that one agent executes, without dependencies."""
    if step.approve is not None:
        question = template(step.approve).render(values)
        terms = step.model_dump(include=set(TERMS), exclude_none=True)
        arguments = {"question": question, **_filled(terms, values)}
        return SubTask(id_, question, tool_name=APPROVE, tool_args=escaped(arguments))
    task = template(step.task).render(values) if step.task else f"Call the tool {step.tool}."
    expected = template(step.expected_output).render(values) if step.expected_output else ""
    arguments = escaped(_filled(step.args or {}, values))
    return SubTask(
        id_,
        task,
        expected,
        step.tool or "",
        arguments,
        role=step.role or "",
        capability=step.capability or "",
        output_schema=step.output or {},
        exact=step.tool is not None,
    )


def _read_by(step: StepPart) -> Iterator[str]:
    """Yields the names that a step itself reads, without the names of the steps within it."""
    texts = (step.task, step.committee, step.swarm, step.expected_output, step.approve)
    for value in (*texts, step.items, step.args, step.if_, step.for_each):
        for each in templates_of(value):
            yield from each.names


def _later(names: Iterator[str], values: Mapping[str, Any]) -> tuple[str, ...]:
    found = [values[name] for name in names if isinstance(values.get(name), Later)]
    return tuple(dict.fromkeys(id_ for value in found for id_ in value.ids))


def _saved_within(step: StepPart) -> Iterator[str]:
    """Yields the names that a block makes known to the steps behind it."""
    if step.kind not in ("if", "parallel"):
        return
    for _, steps in step.blocks():
        for inner in steps:
            if inner.save_as:
                yield inner.save_as
            yield from _saved_within(inner)


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """Returns a value with its templates filled."""
    if isinstance(value, str):
        return template(value).value(values)
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    return [_filled(item, values) for item in value] if isinstance(value, list) else value


def _joined(flows: Sequence[_Flow], otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """The dependencies of a step behind several."""
    return tuple(dict.fromkeys(id_ for flow in flows for id_ in flow.after)) or otherwise


def _collected(values: list[Any]) -> Any:
    """The values of several steps as a list, once all are known."""
    ids = tuple(dict.fromkeys(id_ for value in values if isinstance(value, Later) for id_ in value.ids))
    return Later(ids) if ids else values


def _described(step: StepPart) -> str:
    """The work of a step, with its templates: it is not known better yet."""
    if step.kind == "for_each":
        text = f"For each of {step.for_each}"
    elif step.kind == "if":
        text = f"If {step.if_}"
    elif step.kind == "workflow":
        text = f"The workflow {step.workflow}"
    else:
        text = step.approve or step.committee or step.swarm or step.task or f"Call the tool {step.tool}."
    return shortened(" ".join(text.split()), MAX_SHOWN)
