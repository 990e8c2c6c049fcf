"""The messages of one watch: changes of the tenant that it is about, or of all."""

from __future__ import annotations

from collections.abc import Iterator

from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1.registry_pb2 import Graph
from archon_services.registry.domain import queries
from archon_services.registry.domain.state import Change


class WatchedTenants:
    """Makes the messages of a watch of one `tenant`, or of all if it is None: of `instances`, `edges`, or both."""

    def __init__(self, tenant: str | None, *, instances: bool, edges: bool) -> None:
        self._tenant = tenant
        self._instances = instances
        self._edges = edges
        self._last: Graph | None = None
        """The last graph of the tenant, without its revision."""

    def responses(self, change: Change) -> Iterator[pb.WatchResponse]:
        """Yields the part of a change that the watch is about; nothing if that is nothing.

        A change with too many instances for one message is sent in several. Only the last of them has the revision, so
        that a watch which ends between them is not resumed behind them.
        """
        tenant = self._tenant
        instances = change.instances if self._instances else ()
        removed = change.removed if self._instances else ()
        if tenant is not None:
            instances = tuple(each for each in instances if queries.is_of(each, tenant))
            removed = tuple(each for each in removed if queries.is_of(each, tenant))
        parts = list(queries.in_parts(instances))
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            response = pb.WatchResponse(
                revision=change.revision if is_last else 0, snapshot=change.snapshot and not number
            )
            response.instances.extend(part)
            if is_last:
                response.removed_instance_ids.extend(instance.instance_id for instance in removed)
                if self._edges and change.graph is not None:
                    self._add_graph(response, change.graph, always=change.snapshot)
            has_content = response.instances or response.removed_instance_ids or response.graphs
            if change.snapshot or has_content or response.HasField("graph"):
                yield response

    def _add_graph(self, response: pb.WatchResponse, graph: Graph, *, always: bool) -> None:
        """Adds the graphs of all tenants, or the watched tenant's graph if it has changed."""
        if self._tenant is None:
            response.graphs.extend(queries.graphs_of(graph))
            return
        own = queries.graph_of(graph, self._tenant)
        content = Graph(roles=own.roles, edges=own.edges, refused=own.refused)
        if always or content != self._last:
            response.graph.CopyFrom(own)
        self._last = content
