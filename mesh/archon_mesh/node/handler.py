"""Runs an agent as the handler of a role: each task is a run of a fork of the agent.

The fork starts without a history, or, if the role is stateful, with the history of the task's session.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache, partial

from archon.agent import Answer, Question, TaskContext
from archon.errors import FailedPrecondition, InvalidArgument
from archon.failure_kinds import RetryAdvice
from archon.learning import RoleChoice, read_choices
from archon.telemetry import spans
from archon.types.part import json_part
from archon_mesh.agent.agent import Agent
from archon_mesh.agent.events.emit import Emitter
from archon_mesh.agent.hooks.tracing import TracingMiddleware
from archon_mesh.agent.loop.executor import run_loop
from archon_mesh.agent.loop.run import Loop, run_query
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelClient
from archon_mesh.llm.structured import TypedOutput
from archon_mesh.node.breakpoint_hooks import BreakpointMiddleware
from archon_mesh.node.checkpoint import OpenCalls, decode_checkpoint, decode_open_calls
from archon_mesh.node.front_end_tools import offer_front_end_tools
from archon_mesh.node.message_desk import TaskMessages, read_before
from archon_mesh.node.person_desk import TaskDesk, is_of_breakpoint
from archon_mesh.node.plan_request import PlannerMiddleware, PlanRequestRun
from archon_mesh.node.remote_agent import RemoteAgent
from archon_mesh.node.role import Role
from archon_mesh.node.session_history import TurnRecorder, load_history
from archon_mesh.node.shared_storage import SharedStorageMiddleware, open_shared_storage
from archon_mesh.node.swarm_member import serve_swarm, swarm_part
from archon_mesh.node.task_hooks import TaskMiddleware
from archon_mesh.node.task_input import query_of
from archon_mesh.node.tool_step import ToolStepRun
from archon_mesh.planning.parse import parse_context
from archon_mesh.tools.call_position import bind_position
from archon_mesh.tools.messages.desk import bind_message_desk
from archon_mesh.tools.people.ask import QuestionAsked, bind_desk
from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.schema_library import load_schema_library

TaskHandler = Callable[[TaskContext], Awaitable[Answer | Question]]


def agent_handler(
    agent: Agent, *, delegates: bool = True, asks_credentials: bool = False, memory: str | None = None
) -> TaskHandler:
    """Returns a task handler for an AgentServer.

    If `delegates` is set, the roles that the task may be delegated to become sub-agents of the fork. A later attempt
    resumes after the last reply whose tool calls were made, and repeats no model call. An error of the agent becomes
    the task's failure. If `asks_credentials` is set, a person who follows the run is asked for the credentials that a
    tool lacks; the answers are known to that attempt alone.

    A tool that asks a person ends the attempt with its question; the attempt after the answer goes on with the tools
    that had not ended.

    A task that names the only tools it may use has no others: neither further tools of the agent nor sub-agents. The
    agent's own policy holds all the same. If it names one, with complete arguments, the tool is called without asking
    the model.

    The answer of an agent with an `output`, or of a step with a schema of its own, is one JSON part.

    A member of a swarm takes the items of its work list one by one, and answers with the results of all. Each item is a
    run of its own, which no tool can end with a question to a person.

    A task that asks for a plan, or for the answer of one, is answered by the Planner of `archon_mesh.planning` with the
    agent's model.

    `memory` is the host:port of the memory service, None for ARCHON_MEMORY. If there is one, the fork's storage is the
    run's working memory, as SharedStorage describes; an agent that has a `global_storage` of its own keeps it.
    """
    memory_target = os.environ.get("ARCHON_MEMORY", "") if memory is None else memory
    if agent.global_storage is not None:
        memory_target = ""
    return _TaskRuns(agent, delegates, asks_credentials, memory_target).handle


class _TaskRuns:
    """Answers tasks, each by a run of a fork of one agent."""

    def __init__(self, agent: Agent, delegates: bool, asks_credentials: bool, memory: str) -> None:
        self._agent = agent
        self._delegates = delegates
        self._asks_credentials = asks_credentials
        self._memory = memory

    async def handle(self, task: TaskContext) -> Answer | Question:
        """Returns the answer to a task, or the question to a person that it needs first."""
        if (part := swarm_part(task)) is not None:
            return await serve_swarm(task, part, self._do_item)
        return await self._run(task, query_of(task))

    async def _do_item(self, task: TaskContext, query: ChatMessage, number: int, hidden: frozenset[str]) -> Answer:
        with bind_position(number, 0):  # the calls for one item are none of those for another
            answer = await self._run(task, query, is_item=True, hidden=hidden)
        assert isinstance(answer, Answer)
        return answer

    async def _run(
        self, task: TaskContext, query: ChatMessage, *, is_item: bool = False, hidden: frozenset[str] = frozenset()
    ) -> Answer | Question:
        fork, recorder = self._fork(task, is_item)
        resume_from = [] if is_item else decode_checkpoint(task.checkpoint)
        desk = TaskDesk(task, decode_open_calls(task.checkpoint) if resume_from else OpenCalls())
        messages = TaskMessages(task, read_before(resume_from, desk.open_calls.results))
        hooks = self._use_hooks(fork, task, resume_from, hidden)
        if task.breakpoints or any(is_of_breakpoint(input_id) for input_id in task.answers):
            fork.use(BreakpointMiddleware(task, desk, within=is_item))
        await load_schema_library(fork.tools.list_tools())
        async with open_shared_storage(task, self._memory) as storage:
            if storage is not None:
                fork.global_storage = storage
                fork.use(SharedStorageMiddleware(storage))
            tool_step = _tool_step(task)
            loop = tool_step.answer if tool_step is not None else _loop(task)
            try:
                output = fork.output if is_item else _output_of(task, fork)
                with bind_desk(desk), bind_message_desk(messages):
                    text = await run_query(
                        fork, [query], {"task": task}, Emitter(), resume_from, loop=loop, output=output
                    )
            except QuestionAsked as asked:
                if is_item:
                    raise FailedPrecondition(
                        "a member of a swarm cannot ask a person", retry=RetryAdvice.NEVER
                    ) from None
                return desk.question(asked, hooks.attempt.messages)
        new_history = recorder.new_messages() if recorder is not None else None
        is_plan = task.plan_request is not None and not task.plan_request.synthesise  # of no use to other roles
        answer = Answer(text, new_history=new_history, items=hooks.items, publish=not is_plan)
        if output is not None:
            return replace(answer, text="", parts=[json_part(text)])
        parts = tool_step.parts_of(text) if tool_step is not None else []
        return replace(answer, text="", parts=parts) if parts else answer

    def _fork(self, task: TaskContext, is_item: bool) -> tuple[Agent, TurnRecorder | None]:
        """Returns a fork with the history, sub-agents, tools and credentials of the task, and the recorder of its turn
        if the role is stateful."""
        fork, recorder = _forked(self._agent, task)
        for target in task.delegation_targets if self._delegates else ():
            if target.role not in fork.sub_agents:
                fork.register_agent(RemoteAgent(target.role, description=target.description))
        offer_front_end_tools(fork, task, can_ask=not is_item)
        if task.allowed_tools:
            _allow_only(fork, task.allowed_tools)
        if self._asks_credentials:
            fork.engine = fork.engine.asking(partial(_ask_credential, task))
        return fork, recorder

    def _use_hooks(
        self, fork: Agent, task: TaskContext, resume_from: list[ChatMessage], hidden: frozenset[str]
    ) -> TaskMiddleware:
        """Adds the middleware of the task to a fork, and returns it."""
        middleware = TaskMiddleware if task.plan_request is None else PlannerMiddleware
        hooks = middleware(task, resume_from, coordinates=self._delegates)
        hooks.hidden = hidden
        fork.use(hooks)
        return hooks


def _forked(agent: Agent, task: TaskContext) -> tuple[Agent, TurnRecorder | None]:
    """Returns a fork with the history of the task, and the recorder of its turn if the role is stateful."""
    fork = agent.forked()
    _apply_choice(fork, read_choices(task.metadata).of(task.role))
    if spans.tracer() is not None and not any(isinstance(hook, TracingMiddleware) for hook in fork.registered):
        fork.registered.insert(0, TracingMiddleware())
    recorder = TurnRecorder() if task.remembers else None
    if recorder is None:
        fork.history = HistoryList(agent_name=agent.name)
    else:
        fork.history = load_history(task, recorder, agent.name)
        fork.session_manager = None  # the mesh stores the history
    return fork, recorder


def _apply_choice(fork: Agent, choice: RoleChoice) -> None:
    """Applies the choices that the mesh made for the run by its learned weights. A variant that this instance does not
    have, such as one of another version, leaves the system prompt as it is."""
    fork.system_prompt = fork.prompt_variants.get(choice.variant, fork.system_prompt)
    fork.tools_last = choice.tools_last


def _output_of(task: TaskContext, agent: Agent) -> TypedOutput | None:
    """Returns the output type of a task's answer: of its step, or else the output of the agent, unless it works as the
    planner or calls the tool of a step. Raises InvalidArgument if the schema of the step is invalid."""
    if task.output_schema_json:
        return _step_output(task.output_schema_json)
    return None if task.allowed_tools or task.plan_request is not None else agent.output


@lru_cache(maxsize=64)
def _step_output(schema_json: str) -> TypedOutput | None:
    schema = parse_context(schema_json)
    if not schema:
        raise InvalidArgument("the output schema of the step is not a JSON object")
    return TypedOutput.of(schema)


def _loop(task: TaskContext) -> Loop:
    """Returns the loop that finds the answer to a task that is no call of a tool."""
    if task.plan_request is not None:
        return PlanRequestRun(task, task.plan_request).answer
    return run_loop


def _tool_step(task: TaskContext) -> ToolStepRun | None:
    """Returns the run that calls the tool of a step, None for any other task."""
    is_step = task.plan_request is None and len(task.allowed_tools) == 1 and (task.tool_args_json or task.exact)
    return ToolStepRun(task) if is_step else None


def _allow_only(fork: Agent, names: tuple[str, ...]) -> None:
    """Leaves the agent with these tools only."""
    fork.tools = ToolRegistry.of(each for each in fork.tools.registrations if each.name in names)
    fork.engine = fork.engine.for_registry(fork.tools)


async def _ask_credential(task: TaskContext, tool_name: str, credential: str) -> str:
    return await task.ask_secret(f"The tool {tool_name} needs the credential {credential}.")


def agent_from_role(role: Role, model: ModelClient | str) -> Agent:
    """Returns an agent built from the fields of a role."""
    return Agent(
        role.name,
        description=role.description,
        system_prompt=role.system_prompt,
        model=model,
        temperature=role.temperature,
        max_tokens=role.max_tokens,
        timeout=role.timeout,
        retries=role.retries,
        fallback_model=role.fallback_model,
        output=role.output,
        messages=role.messages,
        prompt_variants=role.prompt_variants,
    )


def role_handler(role: Role, model: ModelClient | str) -> TaskHandler:
    """Returns a task handler that runs the agent of a role."""
    return agent_handler(
        agent_from_role(role, model), delegates=role.coordinator, asks_credentials=role.asks_credentials
    )
