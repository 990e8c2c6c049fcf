package dev.archon.sdk;

import dev.archon.sdk.errors.ArchonException;
import java.util.Locale;

/** Strategy of a run. */
public enum Strategy {
  /** The orchestrator chooses: AGENT if exactly one role or capability is named, else PIPELINE. */
  DEFAULT,
  /** The goal goes to one role, which may delegate. */
  AGENT,
  /** The roles and the edges among them. */
  PIPELINE,
  /** A planner makes a plan, which is executed. */
  PLAN;

  /** Returns the strategy with a name, such as {@code plan}; empty: the default. Throws INVALID_ARGUMENT. */
  public static Strategy of(String name) {
    if (name.isEmpty()) {
      return DEFAULT;
    }
    for (Strategy each : values()) {
      if (each != DEFAULT && each.name().toLowerCase(Locale.ROOT).equals(name)) {
        return each;
      }
    }
    throw ArchonException.invalid("strategy", "unknown strategy '" + name + "'; use one of agent, pipeline, plan");
  }

  dev.archon.api.orchestrator.v1.Strategy proto() {
    return dev.archon.api.orchestrator.v1.Strategy.forNumber(ordinal());
  }
}
