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


def test_graph_reads_back_as_it_was_written() -> None:
    graph = Graph(("a", "b", "c", "lonely"), EDGES, 7)
    assert from_json(to_json(graph)) == graph
    assert from_json(to_json(Graph())) == Graph()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"roles": [], "revision": 1, "edges": [{"upstream": "a"}]}'])
def test_malformed_graph_is_data_loss(text: str) -> None:
    with pytest.raises(DataLoss):
        from_json(text)
