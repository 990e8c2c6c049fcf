"""An agent that asks a person for approval: ARCHON_REGISTRY=127.0.0.1:7101 python examples/approver.py"""

from archon import AgentServer, Question, TaskContext

agent = AgentServer("approver", description="Has a person approve the plan", depends_on=["implementer"])


@agent.task
async def approve(task: TaskContext) -> str | Question:
    """Asks once. The answer comes with the next attempt, on any instance."""
    plan = task.context[0].text if task.context else task.text
    if not task.inputs:
        return Question(f"The plan has {len(plan.split())} words. Approve it?", schema_json='{"enum": ["yes", "no"]}')
    return f"Approved:\n\n{plan}" if task.input_text == "yes" else "Turned down."


if __name__ == "__main__":
    agent.run()
