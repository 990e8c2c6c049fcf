package dev.archon.sdk.registry;

import java.util.List;

/** Roles in topological order, and the edges between them, at one revision of the registry. */
public record Graph(List<String> roles, List<Edge> edges, long revision) {
  /** Returns the graph that a message has. */
  public static Graph of(dev.archon.api.registry.v1.Graph message) {
    List<Edge> edges = message.getEdgesList().stream().map(Edge::of).toList();
    return new Graph(List.copyOf(message.getRolesList()), edges, message.getRevision());
  }
}
