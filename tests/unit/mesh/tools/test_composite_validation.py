"""Declarations of composite tools that are refused before they run."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import ArchonError, FailedPrecondition
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.composite import (
    Argument,
    CompositeCycle,
    CompositeError,
    CompositeTooDeep,
    CompositeTool,
    Item,
    Result,
    TypeMismatch,
    UnknownInput,
    UnknownNode,
    UnmappedInput,
)
from tests.fixtures.composite_tools import double, read, run


def one() -> CompositeTool:
    return CompositeTool("c", "d").add_node("a", double, {"number": 1})


@pytest.mark.parametrize(
    ("composite", "error", "message"),
    [
        (CompositeTool("c", "d"), CompositeError, "no nodes"),
        (one().add_edge("a", "x"), UnknownNode, "no node 'x'; nodes: a"),
        (one().add_node("b", double, {"number": Result("x")}), UnknownNode, "no node 'x'"),
        (
            CompositeTool("c", "d", outputs={"o": Result("x")}).add_node("a", double, {"number": 1}),
            UnknownNode,
            "output",
        ),
        (one().add_node("b", double), UnmappedInput, "node b: the parameter 'number' of tool double is not mapped"),
        (one().add_node("b", double, {"number": 1, "x": 2}), UnknownInput, "no parameter 'x'; it has number"),
        (one().add_node("b", double, {"number": "text"}), TypeMismatch, "not of type 'integer'"),
        (one().add_node("b", read, {"url": Result("a")}), TypeMismatch, "is string, and a is integer"),
        (one().add_node("b", double, {"number": Item()}), CompositeError, "no for_each"),
        (one().add_node("b", double, {"number": Item()}, for_each=Result("a")), TypeMismatch, "for_each needs a list"),
        (one().add_edge("a", "a"), CompositeCycle, "a -> a"),
        (
            CompositeTool("c", "d")
            .add_node("a", double, {"number": Result("b")})
            .add_node("b", double, {"number": Result("a")}),
            CompositeCycle,
            "cycle",
        ),
        (
            one().add_node("b", double, {"number": Argument("x")}).add_node("c", read, {"url": Argument("x")}),
            TypeMismatch,
            "the same argument 'x'",
        ),
        (
            one().add_node("b", double, {"number": 1}, compensate_with=read, compensate_inputs={"page": 1}),
            UnmappedInput,
            "the compensation of node b",
        ),
        (one().add_node("b", double, {"number": Argument("engine")}), CompositeError, "cannot be called engine"),
    ],
)
async def test_invalid_declaration_is_refused_before_it_runs(
    composite: CompositeTool, error: type[ArchonError], message: str
) -> None:
    with pytest.raises(error, match=message):
        composite.validate()
    result = await run(composite, x=1, engine=ToolExecutionEngine(ToolRegistry([composite])))
    assert not result.ok


def test_too_many_nodes_and_levels_are_refused() -> None:
    widest, wider = CompositeTool("c", "d"), CompositeTool("c", "d")
    for number in range(101):
        wider.add_node(f"n{number}", double, {"number": 1})
        if number < 100:
            widest.add_node(f"n{number}", double, {"number": 1})
    widest.validate()
    with pytest.raises(CompositeTooDeep, match="101 nodes; at most 100"):
        wider.validate()
    deep = one()
    for number in range(5):
        deep = CompositeTool(f"c{number}", "d").add_node("inner", deep)
    with pytest.raises(CompositeTooDeep, match="more than 5 deep"):
        deep.validate()


def test_composite_that_contains_itself_is_a_cycle() -> None:
    outer, inner = CompositeTool("outer", "d"), CompositeTool("inner", "d")
    outer.add_node("i", inner)
    inner.add_node("o", outer)
    with pytest.raises(CompositeCycle, match="outer -> inner -> outer"):
        outer.validate()


@pytest.mark.parametrize(
    "fields", [{"on_error": "ignore"}, {"join": "some"}, {"max_items": 0}, {"parallel": 99}, {"attempts": 0}]
)
def test_node_that_is_out_of_range_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(CompositeError):
        one().add_node("b", double, {"number": 1}, **fields)
    for node_id in ("a", "", "a b"):
        with pytest.raises(CompositeError):
            one().add_node(node_id, double, {"number": 1})


def test_validated_composite_cannot_be_changed() -> None:
    composite = one()
    composite.validate()
    with pytest.raises(FailedPrecondition):
        composite.add_edge("a", "a")
