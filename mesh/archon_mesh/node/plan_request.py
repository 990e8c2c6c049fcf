"""Answers the requests of a run to its planner: for a plan over the roles of the mesh, for a check that it still leads
to the goal, or for one answer of all results.

The plan is made by the Planner of `archon_mesh.planning`, with the model, the hooks and the budget of the agent's run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from typing_extensions import override

from archon import context
from archon.agent import PlanRequest, PlanTarget, TaskContext
from archon.errors import FailedPrecondition, FieldViolation, InvalidArgument
from archon.registry import Profile, Tool
from archon.wire import described
from archon_mesh.agent.hooks.context import HookContext, ModelParams
from archon_mesh.agent.hooks.middleware import StreamChunk
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.plan_worker import RunModel
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.engine.plan import MAX_SUBTASKS, ReplanCounters, SubTaskStatus, Task, replan_reason
from archon_mesh.engine.plan.prompt import RoleProfile
from archon_mesh.engine.plan.synthesis import only_result, synthesis_messages
from archon_mesh.llm.base import ModelRequest, ToolSpec
from archon_mesh.node.task_hooks import TaskMiddleware, current_attempt
from archon_mesh.planning import Planner, align_by_model, parse_context
from archon_mesh.planning.planner import TEMPERATURE
from archon_mesh.planning.wire import task_from_proto
from archon_mesh.tools.people.ask import PersonQuestion, QuestionAsked

_CLARIFICATION: Final = "clarification"
"""The id of the one question that a planner may ask about a goal, and of the call that stands for it in the
checkpoint."""

_ALIGNED: Final = json.dumps({"aligned": True})
"""The reply that the plan in force still leads to the goal."""

_KEYS: Final = (
    *("id", "description", "expected_output", "tool_name", "tool_args", "dependencies", "role", "capability"),
    *("critical", "partial_input", "checkpoint", "expand", "expand_on_failure", "exact"),
    *("quorum", "delay_seconds", "delay_quantile", "decision", "timeout_seconds", "assigned_by", "bid_for"),
    *("estimated_seconds", "estimated_cost_micro_usd", "confidence", "output_schema"),
)


class PlannerMiddleware(TaskMiddleware):
    """Connects the run of a planner to its task. The results of steps are in its prompts already, and a plan is shown
    only when it is whole."""

    @override
    def before_model(self, hook: HookContext) -> None:
        assert hook.params is not None
        hook.params.timeout = context.timeout(hook.params.timeout)

    @override
    def stream_chunk(self, chunk: StreamChunk, params: ModelParams) -> None:
        request = self._task.plan_request
        if request is not None and request.synthesise:
            super().stream_chunk(chunk, params)
        elif chunk.thinking_delta:
            self._task.think(chunk.thinking_delta)


class PlanRequestRun:
    """One run of an agent that answers a request for a plan."""

    def __init__(self, task: TaskContext, request: PlanRequest) -> None:
        self._task = task
        self._request = request

    async def answer(
        self, state: AgentState, query: Sequence[ChatMessage], hooks: HookRunner, resume_from: Sequence[ChatMessage]
    ) -> str:
        """Finds the answer in place of `run_loop`: a plan as JSON, that the plan in force is aligned, or the text that
        answers the query. Raises the errors of `Planner.create_plan`."""
        outcome = await hooks.run(HookContext(HookEvent.BEFORE_AGENT, state.agent, state))
        if outcome.decision is HookDecision.STOP:
            return str(outcome.value)
        goal = query[-1].described
        if not self._request.synthesise:
            _check_files(query[-1])
            model = RunModel(state, hooks, is_shown=False)
            return await self._plan(model, state.agent.temperature, goal, self._clarification(resume_from))
        task = self._with_results(self._previous(goal))
        if (text := only_result(task)) is not None:
            return text
        model = RunModel(state, hooks, is_shown=True)
        return (await model.generate(ModelRequest(tuple(synthesis_messages(task))))).text

    def _clarification(self, resume_from: Sequence[ChatMessage]) -> dict[str, str]:
        """Returns the question that an earlier attempt asked a person, and the answer."""
        calls = resume_from[-1].tool_calls if resume_from else ()
        given = self._task.answers.get(_CLARIFICATION)
        if given is None or not calls or calls[0].id != _CLARIFICATION:
            return {}
        return {"question": calls[0].arguments_json, "answer": given.text}

    async def _plan(self, model: RunModel, temperature: float | None, goal: str, answered: Mapping[str, str]) -> str:
        request, targets = self._request, self._request.targets
        known = {"clarification": dict(answered)} if answered else {}
        planner = Planner(
            model,
            roles={target.role: target.description for target in targets},
            profiles={target.role: _profile(target) for target in targets},
            capabilities=dict.fromkeys(each.id for target in targets for each in target.capabilities),
            max_subtasks=max(1, min(request.max_steps or MAX_SUBTASKS, MAX_SUBTASKS)),
            temperature=TEMPERATURE if temperature is None else temperature,
            clarify=None if answered else _ask,
        )
        tools, problem = _tools(targets), ""
        if request.proto.previous.steps:
            reason = request.reason or "the plan cannot be completed"
            previous = self._previous(goal)
            previous = replace(previous, context={**previous.context, **known})
            if request.align:
                problem = (await align_by_model(model)(previous)).problem
                if not problem:
                    return _ALIGNED
                reason = replan_reason(ReplanCounters(misalignment=problem)) or problem
            if request.expand:
                task = await planner.expand(previous, request.expand, tools, faults=request.faults)
            else:
                task = await planner.replan(previous, reason, tools, faults=request.faults)
        else:
            task = await planner.create_plan(goal, tools, known, faults=request.faults)
        new = [each for each in task.subtasks if not each.has_ended]
        if request.expand:  # subtasks that the expansion leaves as they are need no repetition
            new = [each for each in new if each not in self._previous(goal).subtasks]
        left = [{name: getattr(each, name) for name in _KEYS} for each in new]
        reply: dict[str, Any] = {"goal": task.goal, "subtasks": left}
        if problem:
            reply["reason"] = problem
        if planner.changes:
            reply["changes"] = list(planner.changes)
        return json.dumps(reply, ensure_ascii=False, default=str)

    def _previous(self, goal: str) -> Task:
        return task_from_proto(self._request.proto.previous, goal, self._task.task_id)

    def _with_results(self, task: Task) -> Task:
        """Returns the plan as its answer needs it: with the steps whose results were given, and those that have none. A
        step whose result only other steps have used is left out."""
        results = {item.proto.step_id: described(item.proto.parts) for item in self._task.context if item.proto.step_id}
        shown = [
            subtask.with_result(results[subtask.id]) if subtask.id in results else subtask
            for subtask in task.subtasks
            if subtask.id in results or subtask.status is not SubTaskStatus.COMPLETED
        ]
        ids = {subtask.id for subtask in shown}
        subtasks = (replace(each, dependencies=tuple(id_ for id_ in each.dependencies if id_ in ids)) for each in shown)
        return replace(task, subtasks=tuple(subtasks))


def _check_files(query: ChatMessage) -> None:
    """Raises InvalidArgument if the goal has files: the roles of its steps would not get them."""
    if query.files:
        labels = ", ".join(file.label for file in query.files)
        raise InvalidArgument(
            f"the steps of a plan get text only, not {labels}: the strategy agent gives the goal to one role as it is",
            field_violations=[FieldViolation("goal", f"the strategy plan takes no files: {labels}")],
        )


async def _ask(question: str) -> str:
    """Ends the attempt with the question; the next one has the answer."""
    attempt = current_attempt()
    if attempt is None:
        raise FailedPrecondition("no person can be asked outside a task of the mesh")
    attempt.set_checkpoint([ChatMessage("assistant", "", (ToolCall(_CLARIFICATION, _CLARIFICATION, question),))])
    raise QuestionAsked(PersonQuestion(question), _CLARIFICATION)


def _tools(targets: Sequence[PlanTarget]) -> list[ToolSpec]:
    """Returns the tools of all roles, each name once: the engine gives a step to a role that has its tool."""
    tools: dict[str, Tool] = {}
    for target in targets:
        for tool in target.tools:
            tools.setdefault(tool.name, tool)
    return [
        ToolSpec(tool.name, tool.description, parse_context(tool.input_schema_json) or {"type": "object"})
        for tool in tools.values()
    ]


def _profile(target: PlanTarget) -> RoleProfile:
    profile = target.profile or Profile()
    return RoleProfile(
        tuple(tool.name for tool in target.tools),
        tuple(capability.id for capability in target.capabilities),
        profile.instructions,
        profile.expected_latency_ms / 1000,
        profile.expected_cost_micro_usd,
        profile.expected_quality,
    )
