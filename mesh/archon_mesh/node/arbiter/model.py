"""Has the model of an arbiter choose an answer, as a run of its agent within the task."""

from __future__ import annotations

from collections.abc import Sequence

from archon.agent import TaskContext
from archon_mesh.agent.agent import Agent
from archon_mesh.agent.events.emit import Emitter
from archon_mesh.agent.loop.run import run_query
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.structured import TypedOutput
from archon_mesh.node.arbiter.conflict import Position
from archon_mesh.node.arbiter.requests import choice_request, choice_schema
from archon_mesh.node.plan_request import PlannerMiddleware


async def choose_by_model(task: TaskContext, agent: Agent, question: str, positions: Sequence[Position]) -> str:
    """Returns the choice of the model as JSON. Its calls are part of the task: recorded, and within its budget; its
    text is not shown, because the answer of the task is another one. Raises the errors of the run."""
    fork = agent.forked()
    fork.history = HistoryList(agent_name=agent.name)
    fork.session_manager = None
    fork.use(PlannerMiddleware(task, coordinates=False))
    query = ChatMessage("user", choice_request(question, positions))
    output = TypedOutput.of(choice_schema(positions))
    return await run_query(fork, [query], {"task": task}, Emitter(), output=output)
