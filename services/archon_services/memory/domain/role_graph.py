"""The role graph as JSON, in which the store keeps the last one that the registry reported."""

from __future__ import annotations

import json
from dataclasses import asdict

from archon.errors import DataLoss
from archon.registry import Edge, Graph, PropagationPolicy


def to_json(graph: Graph) -> str:
    """Encodes roles, edges and revision."""
    return json.dumps(
        {"revision": graph.revision, "roles": graph.roles, "edges": [asdict(edge) for edge in graph.edges]}
    )


def from_json(text: str) -> Graph:
    """Decodes the output of `to_json`. Raises DataLoss if it is malformed."""
    try:
        data = json.loads(text)
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
    except (KeyError, TypeError, ValueError) as error:
        raise DataLoss(f"cannot read the stored role graph: {error!r}") from error
