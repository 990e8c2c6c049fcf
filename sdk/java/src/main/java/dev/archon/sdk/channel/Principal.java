package dev.archon.sdk.channel;

import java.util.Set;

/**
 * A caller whose credentials were verified. {@code name} is a person's or a client's, the role of an agent, or the name of a
 * service; {@code expires} is in seconds since the epoch; {@code tokenId} is empty if it has no token.
 */
public record Principal(Kind kind, String name, String tenant, Set<String> roles, double expires, String tokenId) {
  /** The tenant of callers that name none. */
  public static final String DEFAULT_TENANT = "default";

  /** The kind of a caller, on which its permissions depend. */
  public enum Kind {
    VIEWER,
    AUDITOR,
    OPERATOR,
    ADMIN,
    AGENT,
    SERVICE;

    /** Returns the name in tokens and certificates. */
    public String label() {
      return name().toLowerCase(java.util.Locale.ROOT);
    }

    /** Returns the kind with a name, or null. */
    public static Kind of(String name) {
      for (Kind kind : values()) {
        if (kind.label().equals(name)) {
          return kind;
        }
      }
      return null;
    }

    /** Returns whether its calls may name another identity. */
    public boolean mayActForOthers() {
      return this == ADMIN || this == SERVICE;
    }
  }

  /** Returns the identity of its calls, such as {@code alice} or {@code service:orchestrator}. */
  public String identity() {
    return kind == Kind.AGENT || kind == Kind.SERVICE ? kind.label() + ":" + name : name;
  }

  /** Returns whether it serves all tenants: a service of the default tenant. */
  public boolean isOfAllTenants() {
    return kind == Kind.SERVICE && tenant.equals(DEFAULT_TENANT);
  }
}
