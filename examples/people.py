"""People in the loop: a tool that asks for approval, a rule before a dangerous tool, and a question for data.

python examples/people.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from archon.errors import ApprovalRejected
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel, ToolCall
from archon_mesh.people import (
    Condition,
    HumanApprovalTool,
    HumanInputTool,
    InterceptionRule,
    PersonQuestion,
    TimeoutPolicy,
    Trigger,
    answered_by,
    ask_person,
)
from archon_mesh.tools import tool


async def at_the_desk(question: PersonQuestion) -> str:
    """Answers in place of a person, who would see the text of the question."""
    return "Porto" if "Where" in question.text else "approve"


async def approval() -> str:
    """A model asks before it acts."""
    agent = Agent(
        "clerk",
        model=ScriptedModel([ToolCall("1", "human_approval", '{"action": "Delete 3 tickets."}'), "Deleted."]),
        tools=[HumanApprovalTool(approvers=["ann"], answer_timeout=600, on_timeout="abort")],
    )
    with answered_by(at_the_desk):
        return await agent.run_async("Clean up.")


@tool(dangerous=True)
def pay(amount: int) -> str:
    """Pays an amount."""
    return f"paid {amount}"


PAYMENTS = InterceptionRule(
    Trigger.TOOL,
    Condition(tool="pay"),
    name="payments",
    approvers=("ann", "bob"),
    timeout=60.0,
    on_timeout=TimeoutPolicy.ESCALATE,
)


async def rules() -> list[str]:
    """A rule has a person asked, whatever the model does."""
    outcomes = []
    for decision in ("approve", '{"amount": 5}', "reject"):
        agent = Agent(
            "clerk",
            model=ScriptedModel(
                [ToolCall("1", "pay", '{"amount": 500}'), lambda request: request.messages[-1].content]
            ),
            tools=[pay],
            tool_policy={"allowed": ["pay"]},
            rules=[PAYMENTS],
        )

        async def decide(question: PersonQuestion, decision: str = decision) -> str:
            return decision

        with answered_by(decide):
            try:
                outcomes.append(await agent.run_async("Pay the invoice."))
            except ApprovalRejected as error:
                outcomes.append(f"rejected by rule {error.metadata['rule']}")
    return outcomes


@tool
async def book(nights: int) -> str:
    """Books a room; asks the person for the city."""
    city = await ask_person("Where to?")
    return f"a room in {city.text} for {nights} nights"


async def questions() -> dict[str, Any]:
    """A tool of your own asks, and one that has a schema for the answer."""
    model = ScriptedModel([ToolCall("1", "book", '{"nights": 2}'), lambda request: request.messages[-1].content])
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    data = HumanInputTool(schema=schema)
    with answered_by(at_the_desk):
        return {"own": await Agent("clerk", model=model, tools=[book]).run_async("Book."), "data": data.result_schema}


async def main() -> None:
    """Prints what each example gives."""
    for example in (approval, rules, questions):
        print(f"{example.__name__}: {await example()}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
