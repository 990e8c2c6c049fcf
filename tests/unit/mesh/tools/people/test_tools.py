"""Tools that ask a person, and rules before calls of tools, outside of the mesh."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from archon.errors import ApprovalRejected, FailedPrecondition, InvalidArgument, QuestionTimedOut
from archon_mesh.agent.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.core.people import Condition, Decision, InterceptionRule, QuestionKind, TimeoutPolicy, Trigger
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.tools.people import (
    HumanApprovalTool,
    HumanGuidanceTool,
    HumanInputTool,
    PersonAnswer,
    PersonQuestion,
    answered_by,
)
from archon_mesh.tools.tool import Tool


def calling(tool: str, arguments: str) -> ScriptedModel:
    """A model that makes one call and answers with its result."""

    def reply(request: ModelRequest) -> str | ToolCall:
        results = [message.content for message in request.messages if message.role == "tool"]
        return results[-1] if results else ToolCall("c", tool, arguments)

    return ScriptedModel(reply)


async def answered(agent: Agent, *answers: PersonAnswer | str) -> tuple[str, list[PersonQuestion]]:
    left, questions = list(answers), []

    async def answer(question: PersonQuestion) -> PersonAnswer | str:
        questions.append(question)
        return left.pop(0)

    with answered_by(answer):
        return await agent.run_async("go"), questions


ASK = '{"action": "delete all", "reason": "cleaning"}'


async def test_an_approval_has_three_outcomes() -> None:
    def agent() -> Agent:
        return Agent("a", model=calling("human_approval", ASK), tools=[HumanApprovalTool()])

    text, (question,) = await answered(agent(), "yes")
    assert "approved" in text
    assert (question.kind, question.text) == (QuestionKind.APPROVAL, "delete all\n\nReason: cleaning")
    text, _ = await answered(agent(), PersonAnswer("only the old ones", Decision.MODIFY))
    assert "only the old ones" in text
    with pytest.raises(ApprovalRejected, match="by ann: delete all: too risky"):
        await answered(agent(), PersonAnswer("too risky", Decision.REJECT, "ann"))


async def test_a_rejection_may_be_left_to_the_model() -> None:
    agent = Agent("a", model=calling("human_approval", ASK), tools=[HumanApprovalTool(stop_on_reject=False)])
    text, _ = await answered(agent, PersonAnswer("too risky", Decision.REJECT))
    assert "rejected by a person: too risky" in text


async def test_guidance_takes_the_number_of_an_option() -> None:
    arguments = '{"question": "Which?", "options": ["left", "right"]}'
    for answer, text in (("2", "right"), ("neither", "neither")):
        agent = Agent("a", model=calling("human_guidance", arguments), tools=[HumanGuidanceTool()])
        assert (await answered(agent, answer))[0] == text


async def test_input_is_data_that_the_question_has_a_schema_for() -> None:
    tool = HumanInputTool(schema={"type": "object", "required": ["city"]})
    agent = Agent("a", model=calling("human_input", '{"question": "Where?"}'), tools=[tool])
    text, (question,) = await answered(agent, '{"city": "Rome"}')
    assert (text, question.schema) == ('{"city": "Rome"}', {"type": "object", "required": ["city"]})


async def test_without_a_person_an_approval_fails_closed() -> None:
    agent = Agent("a", model=calling("human_approval", ASK), tools=[HumanApprovalTool()])
    assert "no person can be asked here" in await agent.run_async("go")


@pytest.mark.parametrize("default", ["", "approve"])
async def test_silence_is_followed_by_the_policy(default: str) -> None:
    policy = "default" if default else "abort"
    tool = HumanApprovalTool(answer_timeout=0.01, on_timeout=policy, default=default)
    agent = Agent("a", model=calling("human_approval", ASK), tools=[tool])

    async def silent(question: PersonQuestion) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    with answered_by(silent):
        if default:
            assert "approved" in await agent.run_async("go")
        else:
            with pytest.raises(QuestionTimedOut):
                await agent.run_async("go")


@pytest.mark.parametrize("terms", [{"answer_timeout": -1.0}, {"on_timeout": "wait"}, {"on_timeout": "escalate"}])
def test_terms_that_make_no_sense_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        HumanApprovalTool(**terms)


class Pay(Tool):
    """Pays, and remembers what."""

    name = "pay"
    description = "Pays."
    dangerous = True
    parameters_schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}

    def __init__(self) -> None:
        self.paid: list[int] = []

    async def execute(self, **kwargs: Any) -> Any:
        self.paid.append(kwargs["amount"])
        return f"paid {kwargs['amount']}"


DANGEROUS = InterceptionRule(Trigger.TOOL, name="danger", timeout=5.0, on_timeout=TimeoutPolicy.ABORT)


def payer(tool: Pay, **fields: Any) -> Agent:
    return Agent(
        "payer",
        model=calling("pay", '{"amount": 5}'),
        tools=[tool],
        tool_policy={"allowed": ["pay"]},
        rules=[DANGEROUS],
        **fields,
    )


async def test_a_rule_asks_before_a_dangerous_tool() -> None:
    tool = Pay()
    text, (question,) = await answered(payer(tool), "approve")
    assert (text, tool.paid) == ("paid 5", [5])
    assert (question.subject, question.terms.rule) == ({"tool": "pay", "arguments": {"amount": 5}}, "danger")
    text, _ = await answered(payer(tool), PersonAnswer('{"amount": 1}', Decision.MODIFY))
    assert (text, tool.paid) == ("paid 1", [5, 1])
    with pytest.raises(ApprovalRejected) as rejected:
        await answered(payer(tool), "no")
    assert (rejected.value.metadata["rule"], tool.paid) == ("danger", [5, 1])


async def test_a_rule_without_a_person_calls_nothing() -> None:
    tool = Pay()
    with pytest.raises(FailedPrecondition, match="no person"):
        await payer(tool).run_async("go")
    assert tool.paid == []


async def test_the_rules_of_an_agent_hold_for_its_sub_agents() -> None:
    tool = Pay()
    inner = Agent("inner", model=calling("pay", '{"amount": 7}'), tools=[tool], tool_policy={"allowed": ["pay"]})
    outer = Agent("outer", model=calling("inner", '{"task": "pay"}'), sub_agents=[inner], rules=[DANGEROUS])
    _, questions = await answered(outer, "approve")
    assert (len(questions), tool.paid) == (1, [7])


def test_an_agent_takes_rules_for_tools_only() -> None:
    with pytest.raises(InvalidArgument, match="plan does not belong here"):
        Agent("a", rules=[InterceptionRule(Trigger.PLAN, Condition())])
