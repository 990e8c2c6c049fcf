"""An agent in ten lines: ARCHON_REGISTRY=127.0.0.1:7101 python examples/reviewer.py"""

from archon import AgentServer, TaskContext

agent = AgentServer("reviewer", description="Reads the plan critically", depends_on=["implementer"])


@agent.task
async def review(task: TaskContext) -> str:
    """Counts the words of the plan."""
    plan = task.context[0].text
    return f"The plan has {len(plan.split())} words. The goal was: {task.text[:60]}"


if __name__ == "__main__":
    agent.run()
