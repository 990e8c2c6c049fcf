package dev.archon.sdk.registry;

import java.util.Map;

/**
 * Further facts about a role; 0 means unknown. {@code expectedQuality} is 0 to 1 by the role's own measure, cost is in millionths of a
 * US dollar, {@code messageTypes} maps a message type to the roles that exchange it, comma separated; {@code promptTemplate} is the
 * template of a good input, with {name} for each value that the caller fills in.
 */
public record Profile(
    String instructions,
    long expectedLatencyMs,
    long expectedCostMicroUsd,
    double expectedQuality,
    Map<String, String> messageTypes,
    String promptTemplate) {
  /** Copies the map. */
  public Profile {
    messageTypes = Map.copyOf(messageTypes);
  }
}
