"""The factory: registration, creation, merging of defaults, and its errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.agent import Agent, AgentFactory, AgentSpec, subagent
from archon_mesh.core.memory_graph import SharedMemoryGraph
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import RemoteAgent
from tests.fixtures.scripted_model import says


class Plain(Agent):
    pass


@subagent("scribe", "Writes it down.", stateless=True)
class Scribe(Agent):
    pass


class Attributed(Agent):
    subagent_name = "attributed"
    subagent_description = "Says so by attributes."


def factory(**defaults: Any) -> AgentFactory:
    agents_factory = AgentFactory({"model": ScriptedModel(), **defaults})
    agents_factory.register("lead", Plain)
    agents_factory.register("poet", Plain, subagent_description="Writes verses.")
    return agents_factory.register("scribe", Scribe)


# Registering -----------------------------------------------------------------------------------------------------


def test_register_is_chained_and_registrations_are_listed() -> None:
    agents_factory = AgentFactory().register("a", Plain).register("b", Plain, subagent_description="d")
    assert agents_factory.get_registered_names() == ["a", "b"]
    assert (agents_factory.is_registered("a"), agents_factory.is_registered("c")) == (True, False)
    assert agents_factory.get_spec("b") == AgentSpec(Plain, True, "b", "d", False, False, {})
    assert agents_factory.get_spec("c") is None


@pytest.mark.parametrize(
    ("more", "exposed"),
    [
        ({}, False),
        ({"subagent_description": "d"}, True),
        ({"subagent_description": "d", "expose_as_subagent": False}, False),
        ({"subagent_description": "d", "expose_as_subagent": True}, True),
    ],
)
def test_exposure_follows_the_description_unless_it_is_set(more: dict[str, Any], exposed: bool) -> None:
    spec = AgentFactory().register("a", Plain, **more).get_spec("a")
    assert spec is not None
    assert spec.expose_as_subagent is exposed


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda f: f.register("poet", Plain), "agent 'poet' is already registered"),
        (lambda f: f.register("x", int), "cannot register 'x': int is not an Agent class"),
        (lambda f: f.register("x", 3), "cannot register 'x': 3 is not an Agent class"),
        (lambda f: f.register("x", Plain, expose_as_subagent=True), "cannot expose 'x'.*decorate Plain"),
    ],
)
def test_invalid_registration_is_rejected(mistake: Callable[[AgentFactory], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mistake(factory())


def test_class_metadata_wins_unless_overridden_and_never_changes() -> None:
    more: dict[str, Any] = {"subagent_name": "n", "subagent_description": "d", "stateless": False}
    agents_factory = (
        AgentFactory().register("kept", Scribe, **more).register("other", Scribe, **more, override_decorator=True)
    )
    agents_factory.register("attributes", Attributed)
    specs = [agents_factory.get_spec(name) for name in ("kept", "other", "attributes")]
    assert [(spec.subagent_name, spec.subagent_description, spec.stateless) for spec in specs if spec is not None] == [
        ("scribe", "Writes it down.", True),
        ("n", "d", False),
        ("attributed", "Says so by attributes.", False),
    ]
    agents = {name: agents_factory.create(name, model=ScriptedModel()) for name in ("kept", "other")}
    assert type(agents["kept"]) is Scribe
    assert isinstance(agents["other"], Scribe)
    assert (type(agents["other"]).subagent_name, Scribe.subagent_name) == ("n", "scribe")
    assert type(agents_factory.create("other", model=ScriptedModel())) is type(agents["other"]), (
        "only one class is created"
    )
    hidden = AgentFactory().register("h", Scribe, expose_as_subagent=False).create("h", model=ScriptedModel())
    assert (hidden.subagent_name, Scribe.subagent_exposed) == ("", True)


# Creating --------------------------------------------------------------------------------------------------------


def test_create_accepts_no_subagents_or_an_empty_list() -> None:
    agents_factory = factory()
    assert agents_factory.create("lead").sub_agents == {}
    orchestrating = agents_factory.create("lead", subagents=[])
    assert orchestrating.sub_agents == {}
    orchestrating.register_agent(agents_factory.create("poet"))
    assert list(agents_factory.create("lead", subagents=["poet", "scribe"]).sub_agents) == ["poet", "scribe"]
    assert list(orchestrating.sub_agents) == ["poet"]


async def test_name_creates_a_new_instance_and_an_object_is_shared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agents_factory = factory()
    first, second = (agents_factory.create("lead", subagents=["poet"]) for _ in range(2))
    assert first.sub_agents["poet"].agent is not second.sub_agents["poet"].agent
    shared = agents_factory.create("poet")
    with caplog.at_level(logging.WARNING):
        leads = [agents_factory.create("lead", subagents=[shared]) for _ in range(2)]
    assert {lead.sub_agents["poet"].agent for lead in leads} == {shared}
    assert "the stateful agent 'poet' is shared" in caplog.text
    assert "calls are serialised, and history is shared" in caplog.text
    caplog.clear()
    agents_factory.create("lead", subagents=[agents_factory.create("scribe"), RemoteAgent("designer")])
    assert not caplog.text


async def test_remote_agent_is_a_sub_agent_like_any_other() -> None:
    lead = factory().create("lead", subagents=["poet", RemoteAgent("designer", description="Designs.")])
    assert [(spec.name, spec.description) for spec in lead.tools.specs] == [
        ("poet", "Writes verses."),
        ("designer", "Designs."),
    ]


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda f: f.create("painter"), "unknown agent 'painter'; registered: lead, poet, scribe"),
        (lambda f: f.create("lead", subagents=["painter"]), "unknown sub-agent 'painter'; registered: lead, poet"),
        (lambda f: f.create("poet", subagents=["lead"]), "'lead' is not exposed.*expose_as_subagent=True"),
        (lambda f: f.create("lead", subagents=[f.create("lead")]), "'lead' cannot be a sub-agent: decorate Plain"),
        (lambda f: f.create("lead", subagents=[3]), "3 cannot be a sub-agent"),
        (
            lambda f: f.create("lead", subagents=["poet"], subagent_config={"scribe": {}, "poet": {}}),
            "subagent_config has unknown sub-agents scribe; named in subagents: poet",
        ),
        (lambda f: f.create("lead", subagent_config={"poet": {}}), "named in subagents: none"),
    ],
)
def test_invalid_create_arguments_raise_value_errors(mistake: Callable[[AgentFactory], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mistake(factory())


# Merging ---------------------------------------------------------------------------------------------------------

VALUES = st.dictionaries(
    st.sampled_from(["max_iterations", "temperature", "system_prompt", "max_tokens"]), st.integers(1, 9)
)


@given(VALUES, VALUES, VALUES, VALUES)
def test_later_defaults_override_earlier_ones(
    defaults: dict[str, Any], registered: dict[str, Any], configured: dict[str, Any], overrides: dict[str, Any]
) -> None:
    agents_factory = AgentFactory({"model": ScriptedModel(), **defaults})
    agents_factory.register("lead", Plain, defaults=registered)
    agents_factory.register("poet", Plain, subagent_description="d", defaults=registered)
    lead = agents_factory.create("lead", subagents=["poet"], subagent_config={"poet": configured}, **overrides)
    for agent, last in ((lead, overrides), (lead.sub_agents["poet"].agent, configured)):
        assert isinstance(agent, Agent)
        expected = {**defaults, **registered, **last}
        assert {key: getattr(agent.config, key) for key in expected} == expected


# Shared memory ---------------------------------------------------------------------------------------------------


async def test_created_agents_get_the_graph_and_their_registered_name() -> None:
    graph = SharedMemoryGraph()
    for node in ("poet", "scribe"):
        graph.add_agent(node)
    graph.add_edge("poet", "scribe")
    agents_factory = factory()
    before = agents_factory.create("poet")
    assert before.memory_graph is None
    assert agents_factory.with_memory_graph(graph) is agents_factory
    poet = agents_factory.create("poet", model=ScriptedModel([says("a verse")]))
    reader = ScriptedModel([says("read")])
    asks = says("", ToolCall("1", "scribe", '{"task": "go"}'))
    config = {"scribe": {"model": reader, "name": "another name"}}
    lead = agents_factory.create(
        "lead", subagents=["scribe"], subagent_config=config, model=ScriptedModel([asks, says("done")])
    )
    assert (poet.agent_id, lead.agent_id, lead.memory_graph) == ("poet", "lead", graph)
    await poet.run_async("?")
    await lead.run_async("?")
    assert reader.requests[0].messages[0].content == "Shared context from poet:\na verse"


async def test_missing_sub_agent_is_warned_of_once_at_create(caplog: pytest.LogCaptureFixture) -> None:
    graph = SharedMemoryGraph()
    graph.add_agent("scribe")
    agents_factory = factory().with_memory_graph(graph)
    model = ScriptedModel([says("one"), says("two")])
    with caplog.at_level(logging.WARNING):
        lead = agents_factory.create("lead", subagents=["poet", "scribe"], model=model)
        assert caplog.text.count("sub-agent poet is not in the shared memory graph") == 1
        for _ in range(2):
            await lead.run_async("?")
    assert caplog.text.count("is not in the shared memory graph") == 1


# Constructors ----------------------------------------------------------------------------------------------------


class Styled(Agent):
    """Takes arguments of its own, and none of an agent."""

    def __init__(self, style: str = "plain") -> None:
        super().__init__("unnamed", model=ScriptedModel([says("styled")]), system_prompt=style)
        self.style = style


class Bare(Agent):
    """Never calls the constructor of Agent."""

    def __init__(self, **given: Any) -> None:
        self.given = given


async def test_class_with_its_own_constructor_gets_only_what_was_given() -> None:
    graph = SharedMemoryGraph()
    agents_factory = AgentFactory().register("styled", Styled, subagent_description="d", defaults={"style": "grand"})
    agents_factory.register("bare", Bare, subagent_description="d").register("lead", Plain)
    unplaced = agents_factory.create("styled", style="terse")
    assert (unplaced.name, unplaced.config.name, unplaced.system_prompt) == ("styled", "styled", "terse")
    agents_factory.with_memory_graph(graph)
    styled, bare = agents_factory.create("styled"), agents_factory.create("bare")
    assert isinstance(styled, Styled)
    assert isinstance(bare, Bare)
    for agent, name in ((styled, "styled"), (bare, "bare")):
        assert (agent.name, agent.agent_id, agent.memory_graph) == (name, name, graph)
    assert (styled.style, styled.history.agent_name, bare.given) == ("grand", "styled", {})
    assert await styled.run_async("?") == "styled"
    assert graph.to_dict()["items"][0]["source_id"] == "styled"
    given = agents_factory.create("bare", style=1, agent_id="node")
    assert isinstance(given, Bare)
    assert given.given == {"style": 1, "agent_id": "node"}
    assert (given.name, given.agent_id) == ("bare", "node")


async def test_agent_without_the_base_constructor_works_as_a_sub_agent() -> None:
    agents_factory = AgentFactory().register("bare", Bare, subagent_description="d").register("lead", Plain)
    asks = says("", ToolCall("1", "bare", '{"task": "go"}'))
    lead = agents_factory.create("lead", subagents=["bare"], model=ScriptedModel([asks, says("done")]))
    assert await lead.run_async("?") == "done"
    assert [message.content for message in lead.history if message.role == "tool"] != []
    assert "bare" in lead.sub_agents
    with pytest.raises(TypeError, match="unexpected keyword argument 'tone'"):
        AgentFactory().register("styled", Styled).create("styled", tone="loud")
