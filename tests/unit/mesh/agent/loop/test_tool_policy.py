"""Tools of an agent: policy, namespaces, sessions, credentials and limits, through the loop."""

from __future__ import annotations

from typing import Any

from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.tools import Secret, tool
from archon_mesh.tools.breaker import FAILURES
from tests.fixtures.scripted_model import says


@tool(dangerous=True)
def shell(command: str) -> str:
    """Runs a command."""
    return f"ran {command}"


@tool
def look() -> str:
    """Looks."""
    return "seen"


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[spec.name for spec in request.tools] for request in model.requests]


def results(agent: Agent) -> list[str]:
    return [message.content for message in agent.history if message.role == "tool"]


def call(name: str, arguments: str = "{}") -> Any:
    return says("", ToolCall("c", name, arguments))


async def test_dangerous_tool_is_neither_offered_nor_called() -> None:
    model = ScriptedModel([call("shell", '{"command": "rm"}'), says("done")])
    agent = Agent("a", model=model, tools=[shell, look])
    await agent.run_async("?")
    assert offered(model) == [["look"], ["look"]]
    assert results(agent) == [
        "Error PERMISSION_DENIED (PERMISSION_DENIED): tool shell is dangerous and not allowed by its name"
    ]


async def test_dangerous_tool_is_allowed_by_its_name_in_one_session() -> None:
    policy = {"allowed": ["*"], "sessions": {"trusted": {"allowed": ["shell"]}}}
    for session_id, names in (("trusted", ["shell", "look"]), ("other", ["look"])):
        model = ScriptedModel([call("shell", '{"command": "ls"}'), says("done")])
        agent = Agent("a", model=model, tools=[shell, look], tool_policy=policy, session_id=session_id)
        await agent.run_async("?")
        assert offered(model)[0] == names
        assert (results(agent) == ["ran ls"]) == (session_id == "trusted")


async def test_denied_tool_is_denied_even_if_allowed() -> None:
    model = ScriptedModel([call("look"), says("done")])
    agent = Agent("a", model=model, tools=[look], tool_policy={"allowed": ["look"], "denied": ["look"]})
    await agent.run_async("?")
    assert offered(model)[0] == []
    assert results(agent) == ["Error PERMISSION_DENIED (PERMISSION_DENIED): tool look is denied"]


async def test_tool_of_a_namespace_has_one_name_for_hooks_and_policy() -> None:
    model = ScriptedModel([call("eyes.look"), call("eyes.look"), says("done")])
    agent = Agent("a", model=model, tool_policy={"allowed": ["eyes.*"], "at_most": {"eyes.look": 1}})
    agent.tools.register_tool(look, namespace="eyes")
    seen: list[Any] = []
    agent.on("before_tool").handle("continue", effects=lambda hook: seen.append(hook.tool_call and hook.tool_call.name))
    await agent.run_async("?")
    assert offered(model) == [["eyes.look"], [], []]
    assert seen == ["eyes.look", "eyes.look"]
    assert results(agent)[0] == "seen"
    assert "tool eyes.look may be called at most 1 times per run" in results(agent)[1]


async def test_credential_reaches_the_tool_and_no_message() -> None:
    @tool(credentials=["api_key"])
    def fetch(api_key: Secret) -> str:
        """Fetches."""
        return f"fetched with {api_key.reveal()}"

    asked: list[str] = []

    async def ask(tool_name: str, credential: str) -> str:
        asked.append(f"{tool_name} needs {credential}")
        return "hunter22"

    model = ScriptedModel([call("fetch"), says("done")])
    agent = Agent("a", model=model, tools=[fetch], ask_credential=ask)
    await agent.run_async("?")
    assert asked == ["fetch needs api_key"]
    assert results(agent) == ["fetched with ***"]
    assert "hunter22" not in repr(agent.config) + repr(model.requests)
    assert "hunter22" not in repr(Agent("b", model=ScriptedModel(), credentials={"api_key": "hunter22"}).config)


async def test_copies_of_a_stateless_sub_agent_share_the_breaker() -> None:
    tried: list[int] = []

    @tool
    def broken() -> None:
        """Raises."""
        tried.append(1)
        raise ValueError("x")

    rounds = FAILURES + 1
    inner = Agent("poet", model=ScriptedModel([call("broken"), says("sorry")] * rounds), tools=[broken])
    lead = Agent("lead", model=ScriptedModel([*[call("poet", '{"task": "go"}')] * rounds, says("done")]), max_repeats=0)
    lead.register_agent(inner, stateless=True)
    await lead.run_async("?")
    assert len(tried) == FAILURES
    assert inner.engine.health()["broken"].breaker == "open"


async def test_failure_of_a_sub_agent_is_never_retried_or_shut_off() -> None:
    rounds = FAILURES + 2
    inner = Agent("poet", model=ScriptedModel([ConnectionError("x")] * rounds), retries=0)
    lead = Agent("lead", model=ScriptedModel([*[call("poet", '{"task": "go"}')] * rounds, says("done")]), max_repeats=0)
    lead.register_agent(inner)
    await lead.run_async("?")
    assert ["is off" in text for text in results(lead)] == [False] * rounds


async def test_answer_of_a_sub_agent_may_be_longer_than_a_tools_result() -> None:
    inner = Agent("poet", model=ScriptedModel([says("x" * 1_000_000), says("x" * 5_000_000)]))
    lead = Agent("lead", model=ScriptedModel([*[call("poet", '{"task": "go"}')] * 2, says("done")]))
    lead.register_agent(inner)
    await lead.run_async("?")
    assert len(results(lead)[0]) == 1_000_000
    assert results(lead)[1].endswith("characters left out: the limit of the tool is 4,194,304 bytes]")


async def test_call_that_was_not_made_says_which_tool_it_concerns() -> None:
    model = ScriptedModel([call("look", "{"), call("look"), call("look"), says("done")])
    agent = Agent("a", model=model, tools=[look], tool_policy={"at_most": {"look": 1}})
    seen: list[Any] = []
    agent.on("after_tool").handle("continue", effects=lambda hook: seen.append(hook.tool_result))
    await agent.run_async("?")
    assert [(each.metadata["tool_name"], each.metadata["kind"] if not each.ok else "") for each in seen] == [
        ("look", "tool.invalid_parameters"),
        ("look", ""),
        ("look", "tool.permission"),
    ]
