package dev.archon.sdk.channel;

/** The member of a mesh that a call is for: a service by its name, or the agents of a role. */
public record Peer(Principal.Kind kind, String name) {
  /** The orchestrator. */
  public static final Peer ORCHESTRATOR = new Peer(Principal.Kind.SERVICE, "orchestrator");

  /** The registry. */
  public static final Peer REGISTRY = new Peer(Principal.Kind.SERVICE, "registry");

  /** The memory service. */
  public static final Peer MEMORY = new Peer(Principal.Kind.SERVICE, "memory");

  /** Returns the agents of a role, of the caller's tenant. */
  public static Peer agent(String role) {
    return new Peer(Principal.Kind.AGENT, role);
  }

  /** Returns the audience of tokens that are presented to it: {@code services} or {@code agents}. */
  public String audience() {
    return kind == Principal.Kind.SERVICE ? "services" : "agents";
  }
}
