"""The role graphs of all tenants as JSON, in which the store keeps the last ones that the registry reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from archon.errors import DataLoss
from archon.principal import DEFAULT_TENANT
from archon.registry import Edge, Graph, PropagationPolicy


def to_json(graphs: Mapping[str, Graph]) -> str:
    """Encodes roles, edges and revision of each tenant's graph."""
    return json.dumps({"tenants": {tenant: _encoded(graph) for tenant, graph in graphs.items()}})


def from_json(text: str) -> dict[str, Graph]:
    """Decodes the output of `to_json`, or of an earlier version, which had one graph. Raises DataLoss if it is
    malformed."""
    try:
        data = json.loads(text)
        tenants = data.get("tenants", {DEFAULT_TENANT: data})
        return {str(tenant): _decoded(graph) for tenant, graph in tenants.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataLoss(f"cannot read the stored role graph: {error!r}") from error


def _encoded(graph: Graph) -> dict[str, Any]:
    return {"revision": graph.revision, "roles": graph.roles, "edges": [asdict(edge) for edge in graph.edges]}


def _decoded(data: dict[str, Any]) -> Graph:
    edges = tuple(
        Edge(
            edge["upstream"],
            edge["downstream"],
            PropagationPolicy(edge["policy"]),
            edge["pinned"],
            tuple(edge["declared_by"]),
        )
        for edge in data["edges"]
    )
    return Graph(tuple(data["roles"]), edges, data["revision"])
