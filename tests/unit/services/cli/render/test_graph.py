"""The dependency graph as text and JSON."""

from __future__ import annotations

import json

from archon.registry import Edge, Graph, RefusedEdge
from archon_services.cli.drawing_format import Format
from archon_services.cli.render.graph import render_graph

GRAPH = Graph(
    roles=("cook", "waiter"),
    edges=(Edge("cook", "waiter", pinned=True, declared_by=("waiter-1", "waiter-2")),),
    refused=(RefusedEdge(Edge("waiter", "cook"), "cook -> waiter -> cook"), RefusedEdge(Edge("host", "cook"), "")),
)


def test_text_has_instances_origins_and_rejected_edges() -> None:
    text = render_graph(GRAPH, {"cook": 1, "waiter": 2}, Format.TEXT, frozenset({"cook"}))
    assert "cook (1 instance, coordinator)" in text
    assert "waiter (2 instances)" in text
    assert text.splitlines()[-3:] == [
        "cook -> waiter  declared by 2 instances, pinned, final_response_only",
        "waiter -> cook  rejected: would close the cycle cook -> waiter -> cook",
        "host -> cook  rejected: retried with the next heartbeat",
    ]


def test_empty_graph_is_one_line() -> None:
    assert render_graph(Graph(), {}, Format.TEXT) == "No roles are registered and no edges are pinned.\n"


def test_json_counts_instances_by_role() -> None:
    graph = json.loads(render_graph(GRAPH, {"waiter": 2}, Format.JSON, frozenset({"cook"})))
    assert graph["roles"] == [
        {"role": "cook", "instances": 0, "coordinator": True},
        {"role": "waiter", "instances": 2, "coordinator": False},
    ]
    assert graph["refused"][0]["cycle"] == "cook -> waiter -> cook"
