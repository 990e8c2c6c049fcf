"""An agent as the handler of a role: each task is a run of a copy. It begins without a history, or with what a
stateful role remembers of the task's session."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from archon.agent import Answer, TaskContext
from archon_mesh.agent.agent import Agent
from archon_mesh.agent.events.types import Emitter
from archon_mesh.agent.loop.run import run_query
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.llm import ModelClient
from archon_mesh.node.checkpoint import restored
from archon_mesh.node.remote_agent import MeshRole
from archon_mesh.node.role import Role
from archon_mesh.node.session_history import TurnKeeper, remembered
from archon_mesh.node.shared_storage import RunValues, run_values
from archon_mesh.node.task_hooks import TaskMiddleware

Play = Callable[[TaskContext], Awaitable[Answer]]


def play(agent: Agent, *, delegates: bool = True, memory: str | None = None) -> Play:
    """A handler. Roles that the task may be delegated to are sub-agents of the copy, where it `delegates`; a later
    attempt goes on after the last reply whose calls were made, and pays for no model call twice. What the agent raises
    is the task's failure.

    Where `memory` names a memory service (host:port; None: as ARCHON_MEMORY says), the copy's storage is the run's
    working memory: see RunStorage. An agent that was given a `global_storage` keeps that one."""
    known = os.environ.get("ARCHON_MEMORY", "") if memory is None else memory
    shared_by = known if agent.global_storage is None else ""

    async def answer(task: TaskContext) -> Answer:
        player = agent.forked()
        keeper = TurnKeeper() if task.remembers else None
        player.history = HistoryList(agent_name=agent.name) if keeper is None else remembered(task, keeper, agent.name)
        if keeper is not None:
            player.session_manager = None  # the mesh keeps it
        for target in task.delegation_targets if delegates else ():
            if target.role not in player.sub_agents:
                player.register_agent(MeshRole(target.role, target.description))
        turns = restored(task.checkpoint)
        player.use(TaskMiddleware(task, player.models.client.model, turns, coordinates=delegates))
        async with run_values(task, shared_by) as storage:
            if storage is not None:
                player.global_storage = storage
                player.use(RunValues(storage))
            text = await run_query(player, task.text, {"task": task}, Emitter(), turns)
        return Answer(text, usage=task.usage, new_history=keeper.turn() if keeper is not None else None)

    return answer


def agent_of(role: Role, model: ModelClient | str) -> Agent:
    """The agent that plays a role."""
    return Agent(
        role.name,
        description=role.description,
        system_prompt=role.system_prompt,
        model=model,
        temperature=role.temperature,
        max_tokens=role.max_tokens,
        timeout=role.timeout,
    )


def answer_with(role: Role, model: ModelClient | str) -> Play:
    """A handler that has the role's agent answer."""
    return play(agent_of(role, model), delegates=role.coordinator)
