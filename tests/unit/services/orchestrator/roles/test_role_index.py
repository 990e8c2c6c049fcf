"""A query goes to the role whose registration fits it best."""

from __future__ import annotations

import pytest

from archon.registry import Capability, Registration, Tool
from archon_mesh.declared import load_agent
from archon_mesh.node.tools import tool_descriptions
from archon_services.agents.roles.catalogue import FOLDER, YAML_ROLES
from archon_services.orchestrator.roles.role_index import closest
from tests.unit.services.orchestrator.roles.queries import SHOP, SHOP_ROLES, TEAM, UNDECIDED


def team() -> list[Registration]:
    """The reference roles, but the one that plans, as they register."""
    found = []
    for name in YAML_ROLES:
        declared = load_agent(FOLDER / f"{name}.yaml")
        role, tools = declared.role, tool_descriptions(declared.agent.tools)
        found.append(
            Registration(
                role.name,
                description=role.description,
                capabilities=[each for each in role.capabilities if isinstance(each, Capability)],
                tools=tools,
                planner=role.planner,
            )
        )
    return [each for each in found if not each.planner]


@pytest.mark.parametrize(("query", "role"), TEAM)
def test_a_query_goes_to_the_reference_role_for_it(query: str, role: str) -> None:
    match = closest(query, team())
    assert (match.name if match is not None else UNDECIDED) == role, match


@pytest.mark.parametrize(("query", "role"), SHOP)
def test_a_query_goes_to_the_role_of_a_shop_for_it(query: str, role: str) -> None:
    match = closest(query, SHOP_ROLES)
    assert (match.name if match is not None else UNDECIDED) == role, match


def test_of_two_roles_that_fit_equally_the_one_with_less_to_offer_is_taken() -> None:
    wide = Registration("a-wide", description="Books flights.", tools=[Tool("x1"), Tool("x2"), Tool("x3")])
    narrow = Registration("b-narrow", description="Books flights.", tools=[Tool("x1")])
    for instances in ((wide, narrow), (narrow, wide)):
        match = closest("Book a flight", instances)
        assert match is not None
        assert (match.name, match.words) == ("b-narrow", ("book", "flight"))


def test_a_question_alone_makes_no_role_of_a_default_mesh_the_closest() -> None:
    """They do not answer questions: the coordinator decides."""
    assert closest("What is 15 * 24?", [each for each in team() if each.role in ("requirements", "designer")]) is None


def test_a_query_without_a_word_of_any_role_has_no_role() -> None:
    assert closest("Sing!", SHOP_ROLES) is None
    assert closest("", SHOP_ROLES) is None
    assert closest("Sing!", ()) is None
