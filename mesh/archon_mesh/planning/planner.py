"""The planner: asks a model for a plan, has it corrected once, and repairs the remaining faults."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.core.messages import ChatMessage
from archon_mesh.engine.plan import (
    MAX_SUBTASKS,
    EmptyPlan,
    FaultKind,
    Plan,
    PlanFault,
    SubTaskStatus,
    Task,
    carry_over,
    expanded,
    expansion_faults,
    find_faults,
    has_ended,
    repair,
)
from archon_mesh.engine.plan.prompt import (
    REPLY_SCHEMA,
    PlannerInput,
    RoleProfile,
    faults_message,
    planner_messages,
    progress_of,
)
from archon_mesh.llm import deadline
from archon_mesh.llm.base import CALL_TIMEOUT, ModelClient, ModelRequest, ToolSpec, Usage
from archon_mesh.llm.create import create_model
from archon_mesh.planning.available_tools import AvailableTools, specs_of
from archon_mesh.planning.errors import MalformedPlan, PlanNotApproved
from archon_mesh.planning.parse import parse_plan, parse_question, parse_template
from archon_mesh.planning.plan_template import ARGUMENTS_KEY, TEMPLATE_KEY, PlanTemplate, TemplatePlan, fitting_template

_log = logging.getLogger(__name__)

TEMPERATURE: Final = 0.1
"""Of the model's calls: plans should be the same for the same query."""

MAX_QUOTED: Final = 20_000
"""Characters of a reply that its model sees again."""

Approve = Callable[[Task], Awaitable[bool | Task]]
"""Says whether a plan may be executed, or returns another plan in its place."""

Clarify = Callable[[str], Awaitable[str]]
"""Answers a planner's question."""

GoalCheck = Callable[[Task], Awaitable[str]]
"""Returns the fault of a plan's goal, or an empty text."""

_NO_ANSWER: Final = (
    "There is no answer to questions. Assume what is most likely, and reply with the plan, as one JSON object and "
    "nothing else."
)


@dataclass(slots=True)
class _Conversation:
    """The messages with the model about one plan, and its remaining options."""

    messages: list[ChatMessage]
    may_ask: bool
    places: tuple[str, ...] = ()
    """The subtasks in whose place the model plans; empty for a whole plan."""

    may_correct: bool = True
    candidate: Task | None = None
    """The last plan that could be read."""

    faults: list[PlanFault] = field(default_factory=list)


class Planner:
    """Makes plans with a model.

    `roles` are the agents that subtasks may go to, with their descriptions by name, and `profiles` the other facts
    about them; `capabilities` are names that they may be chosen by. `approve` is called with each plan before it is
    returned. `clarify` answers the model's question, at most one per plan. `goal_check` finds a goal that misses the
    query, beside the rule of `find_faults`. `timeout` is in seconds, for each call of the model.

    The model may answer with one of the `templates` and arguments, in place of a plan of its own; a query that clearly
    fits one, as `fitting_template` tells, is not given to the model. The template then expands the plan too: the plan's
    context names it. A plan of a template is never repaired: one with faults is no answer.

    A plan with faults is sent back to the model once, with the faults in words. Then it is repaired, which is logged.
    """

    def __init__(
        self,
        model: ModelClient,
        *,
        roles: Mapping[str, str] | Iterable[str] = (),
        capabilities: Iterable[str] = (),
        profiles: Mapping[str, RoleProfile] | None = None,
        approve: Approve | None = None,
        clarify: Clarify | None = None,
        goal_check: GoalCheck | None = None,
        templates: Sequence[PlanTemplate] = (),
        max_subtasks: int = MAX_SUBTASKS,
        temperature: float | None = TEMPERATURE,
        timeout: float = CALL_TIMEOUT,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self._model = model
        self.roles = dict(roles) if isinstance(roles, Mapping) else dict.fromkeys(roles, "")
        self.capabilities = tuple(capabilities)
        self._profiles = dict(profiles or {})
        self._approve = approve
        self._clarify = clarify
        self._goal_check = goal_check
        self._templates = tuple(templates)
        self._chosen: TemplatePlan | None = None
        self._max_subtasks = max_subtasks
        self._temperature = temperature
        self._timeout = timeout
        self._new_id = new_id
        self.usage = Usage(0, 0)
        """Of all calls so far."""

        self.changes: tuple[str, ...] = ()
        """The repairs of the last plan."""

    async def create_plan(
        self,
        goal: str,
        available_tools: AvailableTools = (),
        initial_context: Mapping[str, Any] | None = None,
        *,
        faults: Sequence[str] = (),
    ) -> Task:
        """Returns a plan for a goal, which is the query of the task.

        `available_tools` are tools, functions, or a registry of them; `initial_context` has values that the plan may
        use; `faults` are the faults of a plan that others have refused before. Raises MalformedPlan, EmptyPlan,
        PlanNotApproved, and the errors of the model, `approve` and `clarify`.
        """
        tools, context = specs_of(available_tools), dict(initial_context or {})
        task_id, self._chosen = self._new_id(), None
        # A plan that others have refused is not tried again.
        templates = () if faults else self._templates
        if (fitting := fitting_template(goal, templates)) is not None:
            template = fitting.template
            try:
                task = await self._from_template(template, fitting.arguments, goal, task_id, context)
                if not (found := await self._faults(task, self._names(tools), ())):
                    return await self._approved(task)
                reason = found[0].message
            except MalformedPlan as error:
                reason = str(error)
            _log.info("the template %s fits the query, but cannot be used: %s", template.name, reason)

        async def finish(text: str) -> Task:
            self._chosen = None
            named = parse_template(text) if templates else None
            template = next((each for each in templates if named and each.name == named[0]), None)
            if named and template is None:
                raise MalformedPlan(f"there is no template {named[0]!r}")
            if named and template:
                return await self._from_template(template, named[1], goal, task_id, context)
            return replace(parse_plan(text, goal, task_id), context=context)

        planner_input = replace(self._input(goal, tools, context), templates=_described(templates))
        return await self._make(planner_input, tools, finish, faults)

    async def replan(
        self,
        task: Task,
        reason: str,
        available_tools: AvailableTools = (),
        *,
        split: Sequence[str] = (),
        faults: Sequence[str] = (),
    ) -> Task:
        """Returns a plan for the rest of a task, with its completed subtasks and their results.

        `reason` says why a new plan is needed; `split` has the ids of subtasks that are too large; `faults` is as in
        `create_plan`. Raises as `create_plan` does.
        """
        tools = specs_of(available_tools)
        planner_input = replace(
            self._input(task.original_query, tools, task.context),
            progress=progress_of(task),
            reason=reason,
            split=tuple(split),
        )

        self._chosen = None
        # The new plan is the model's own.
        old = replace(task, context={**task.context, TEMPLATE_KEY: ""}) if task.context.get(TEMPLATE_KEY) else task

        async def finish(text: str) -> Task:
            return carry_over(old, parse_plan(text, task.original_query, task.id))

        return await self._make(planner_input, tools, finish, faults)

    async def expand(
        self, task: Task, places: Sequence[str], available_tools: AvailableTools = (), *, faults: Sequence[str] = ()
    ) -> Task:
        """Returns the task with the subtasks that take the place of these ones. Raises as `create_plan` does."""
        if (chosen := self._chosen or self._template_of(task)) is not None:
            if faults:
                raise FailedPrecondition(f"the plan of the template cannot be executed: {'; '.join(faults[:5])}")
            return await chosen.expand(task, places)
        tools = specs_of(available_tools)
        planner_input = replace(
            self._input(task.original_query, tools, task.context), progress=progress_of(task), expand=tuple(places)
        )

        async def finish(text: str) -> Task:
            return expanded(task, parse_plan(text, task.original_query, task.id), places)

        return await self._make(planner_input, tools, finish, faults)

    def answer(self, task: Task) -> str | None:
        """Returns the answer of a template; None if the plan is the model's own, or was made anew."""
        reference = task.context.get(TEMPLATE_KEY)
        if self._chosen is None and any(each.reference == reference for each in self._templates):
            self._chosen = self._template_of(task)  # another process has planned
        return self._chosen.answer(task) if self._chosen is not None else None

    def _template_of(self, task: Task) -> TemplatePlan | None:
        """The template that made a plan, as its context says. Raises FailedPrecondition if there is none any more."""
        reference = task.context.get(TEMPLATE_KEY)
        if not reference:
            return None
        for template in self._templates:
            if template.reference == reference:
                return template.planner(task.context.get(ARGUMENTS_KEY) or {})
        raise FailedPrecondition(f"the plan was made by the template {reference}, which is not there any more")

    def _names(self, tools: Sequence[ToolSpec]) -> dict[str, Collection[str]]:
        return {
            "tools": frozenset(tool.name for tool in tools),
            "roles": frozenset(self.roles),
            "capabilities": frozenset(self.capabilities),
        }

    async def _from_template(
        self, template: PlanTemplate, arguments: Mapping[str, Any], goal: str, task_id: str, context: Mapping[str, Any]
    ) -> Task:
        """Raises MalformedPlan if the arguments are wrong."""
        try:
            chosen = template.planner(arguments)
            task = await chosen.plan(goal, task_id, context)
        except InvalidArgument as error:
            raise MalformedPlan(f"template {template.name}: {error.message}") from None
        self._chosen = chosen
        return task

    def _input(self, query: str, tools: Sequence[ToolSpec], context: Mapping[str, Any]) -> PlannerInput:
        described = [
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters_schema)}
            for tool in tools
        ]
        profiles = {role: known for role, profile in self._profiles.items() if (known := profile.known)}
        return PlannerInput(query, described, self.roles, self.capabilities, context, profiles=profiles)

    async def _make(
        self,
        planner_input: PlannerInput,
        tools: Sequence[ToolSpec],
        finish: Callable[[str], Awaitable[Task]],
        refused: Sequence[str],
    ) -> Task:
        self.changes = ()
        names = self._names(tools)
        messages = planner_messages(planner_input, may_ask=self._clarify is not None, max_subtasks=self._max_subtasks)
        if refused:
            messages.append(faults_message(refused))
        places = tuple(planner_input.expand)
        task = await self._corrected(_Conversation(messages, may_ask=True, places=places), finish, names)
        Plan.of(task)
        return await self._approved(task, names, places)

    async def _approved(
        self, task: Task, names: Mapping[str, Collection[str]] | None = None, places: Sequence[str] = ()
    ) -> Task:
        if self._approve is None:
            return task
        approved = await self._approve(task)
        if isinstance(approved, Task):
            if names is None:
                return approved
            # A changed plan is held to the same rules.
            return self._repaired(approved, (), names, places)
        if approved is not True:
            raise PlanNotApproved("the plan was not approved", task)
        return task

    async def _corrected(
        self,
        conversation: _Conversation,
        finish: Callable[[str], Awaitable[Task]],
        names: Mapping[str, Collection[str]],
    ) -> Task:
        """Returns a plan without faults. Asks the model at most three times: with an answer to its question, and with
        the faults of its plan."""
        while True:
            text = await self._generate(conversation.messages)
            if (question := parse_question(text)) and conversation.may_ask:
                conversation.may_ask = False
                answer = await self._clarify(question) if self._clarify is not None else _NO_ANSWER
                conversation.messages += [_quoted(text), ChatMessage("user", answer)]
                continue
            try:
                task = await finish(text)
            except MalformedPlan as error:
                if conversation.candidate is not None:
                    return self._repaired(conversation.candidate, conversation.faults, names, conversation.places)
                if not conversation.may_correct:
                    raise
                conversation.may_correct = False
                conversation.messages += [_quoted(text), faults_message([str(error)])]
                continue
            faults = await self._faults(task, names, conversation.places)
            if not faults:
                return task
            if self._chosen is not None:
                if not conversation.may_correct:
                    raise MalformedPlan(f"the template cannot be executed: {faults[0].message}")
                conversation.may_correct = False
                conversation.messages += [_quoted(text), faults_message(faults)]
                continue
            if not conversation.may_correct:
                return self._repaired(task, faults, names, conversation.places)
            conversation.may_correct = False
            conversation.candidate, conversation.faults = task, faults
            conversation.messages += [_quoted(text), faults_message(faults)]

    async def _generate(self, messages: Sequence[ChatMessage]) -> str:
        # No reader waits for the chunks of a plan: only the time of the whole call counts.
        request = ModelRequest(
            tuple(messages),
            temperature=self._temperature,
            timeout=self._timeout,
            idle_timeout=self._timeout,
            is_json=True,
            output_schema=REPLY_SCHEMA,
        )
        reply = await deadline.generate(self._model, request)
        self.usage += reply.usage
        if not reply.text.strip() and reply.tool_calls:
            # Some models reply with a call in place of a text.
            return reply.tool_calls[0].arguments_json
        return reply.text

    async def _faults(self, task: Task, names: Mapping[str, Collection[str]], places: Sequence[str]) -> list[PlanFault]:
        faults = [
            *find_faults(
                task,
                tools=names["tools"],
                roles=names["roles"],
                capabilities=names["capabilities"],
                max_subtasks=self._max_subtasks,
            )
        ]
        faults += expansion_faults(task, places)
        if task.subtasks and has_ended(task) and not places:
            faults.append(PlanFault(FaultKind.EMPTY_PLAN, "", "the plan has no subtask that is left to execute"))
        if self._goal_check is not None and (problem := await self._goal_check(task)):
            faults.append(PlanFault(FaultKind.WRONG_GOAL, "", problem))
        return faults

    def _repaired(
        self, task: Task, faults: Sequence[PlanFault], names: Mapping[str, Collection[str]], places: Sequence[str]
    ) -> Task:
        """Returns the plan without its faults. Raises EmptyPlan if no subtask is left."""
        if any(fault.kind is FaultKind.WRONG_GOAL for fault in faults):
            task = replace(task, goal=task.original_query)
        repaired, changes = repair(
            task,
            tools=names["tools"],
            roles=names["roles"],
            capabilities=names["capabilities"],
            max_subtasks=self._max_subtasks,
        )
        if not places:
            # A step may repeat a completed one as the model wrote that one: only now do they look alike.
            new = tuple(each for each in repaired.subtasks if each.status is not SubTaskStatus.COMPLETED)
            repaired = carry_over(repaired, replace(repaired, subtasks=new))
            if has_ended(repaired):
                raise EmptyPlan("the plan has no subtask that is left to execute")
        self.changes = changes
        for change in changes:
            _log.warning("plan of task %s repaired: %s", task.id, change)
        return repaired


def _described(templates: Sequence[PlanTemplate]) -> list[dict[str, Any]]:
    """Templates as a model sees them."""
    return [
        {"name": each.name, "description": each.description, "parameters": dict(each.parameters_schema)}
        for each in templates
    ]


def _quoted(text: str) -> ChatMessage:
    return ChatMessage("assistant", text[:MAX_QUOTED] or "(an empty reply)")


async def create_plan(
    goal: str,
    available_tools: AvailableTools = (),
    initial_context: Mapping[str, Any] | None = None,
    *,
    model: ModelClient | str = "offline",
) -> Task:
    """Returns a plan, as `Planner.create_plan` does. `model` is a client, or a spec for `create_model`."""
    if not isinstance(model, str):
        return await Planner(model).create_plan(goal, available_tools, initial_context)
    client = create_model(model)
    try:
        return await Planner(client).create_plan(goal, available_tools, initial_context)
    finally:
        await client.close()
