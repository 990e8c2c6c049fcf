"""The role graph as JSON."""

from __future__ import annotations

import pytest

from archon.errors import DataLoss
from archon.registry import Edge, Graph, PropagationPolicy
from archon_services.memory.domain.role_graph import from_json, to_json

EDGES = (
    Edge("a", "b", PropagationPolicy.TOOL_RESULTS, pinned=True),
    Edge("b", "c", declared_by=("c-1", "c-2")),
)


def test_graphs_read_back_as_they_were_written() -> None:
    graph = Graph(("a", "b", "c", "lonely"), EDGES, 7)
    graphs = {"default": graph, "acme": Graph()}
    assert from_json(to_json(graphs)) == graphs
    assert from_json(to_json({})) == {}


def test_the_graph_of_an_earlier_version_is_that_of_the_default_tenant() -> None:
    assert from_json('{"revision": 7, "roles": ["a"], "edges": []}') == {"default": Graph(("a",), (), 7)}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"tenants": []}',
        '{"tenants": {"a": {}}}',
        '{"roles": [], "revision": 1, "edges": [{"upstream": "a"}]}',
    ],
)
def test_malformed_graph_is_data_loss(text: str) -> None:
    with pytest.raises(DataLoss):
        from_json(text)
