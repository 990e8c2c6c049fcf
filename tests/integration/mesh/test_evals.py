"""Evals over a mesh of the reference agents with the offline model, and of agents with questions, tools and costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from archon import AgentServer, TaskContext
from archon_mesh.agent import Agent
from archon_mesh.evals import Case, compare, evaluate
from archon_mesh.evals.case import case_of
from archon_mesh.node import agent_from_role, agent_server
from archon_services.testing import InProcessMesh
from tests.fixtures.reference_roles import reference_role

SUBJECTS = ("a todo app", "a shop", "a wiki", "a chat", "a game", "a calendar", "a forum", "a blog", "a map", "a bank")
NEEDS = ("It must sync.", "It must be fast.", "It must work offline.", "It must be cheap.", "It must be safe.")
GOALS = [f"Build {subject}. {need}" for subject in SUBJECTS for need in NEEDS]
PIPELINE = ("requirements", "designer", "implementer")


def cases(answers: dict[str, str]) -> list[Case]:
    """Returns a case for each goal, which expects the recorded answer, and the roles of the pipeline."""
    return [
        case_of(
            {
                "id": f"goal-{number}",
                "goal": goal,
                "roles": list(PIPELINE),
                "answer": answers.get(goal, ""),
                "expect": [{"scorer": "exact"}, {"scorer": "roles", "names": list(PIPELINE), "only": True}],
            }
        )
        for number, goal in enumerate(GOALS)
    ]


@asynccontextmanager
async def demo_mesh(home: Path, *, planted: bool = False) -> AsyncIterator[InProcessMesh]:
    """A mesh of the reference roles; with `planted`, the designer answers goals about a shop otherwise than before."""
    async with InProcessMesh(home) as mesh, AsyncExitStack() as stack:
        for name in PIPELINE:
            role = reference_role(name)
            agent = await stack.enter_async_context(agent_from_role(role, "offline"))
            server = agent_server(role, agent, mesh.agent_settings())
            await stack.enter_async_context(server)
        yield mesh
