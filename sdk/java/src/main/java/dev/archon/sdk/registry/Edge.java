package dev.archon.sdk.registry;

import dev.archon.sdk.types.PropagationPolicy;

/** An edge of the graph of roles: the downstream role receives the upstream role's answers. */
public record Edge(String upstream, String downstream, PropagationPolicy policy) {
  /** Returns an edge for final answers. */
  public static Edge of(String upstream, String downstream) {
    return new Edge(upstream, downstream, PropagationPolicy.FINAL_RESPONSE_ONLY);
  }

  dev.archon.api.common.v1.Edge proto() {
    return dev.archon.api.common.v1.Edge.newBuilder()
        .setUpstream(upstream)
        .setDownstream(downstream)
        .setPolicy(policy.proto())
        .build();
  }

  /** Returns the edge that a message has. */
  public static Edge of(dev.archon.api.common.v1.Edge message) {
    return new Edge(message.getUpstream(), message.getDownstream(), PropagationPolicy.of(message.getPolicyValue()));
  }
}
