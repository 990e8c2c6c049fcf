package dev.archon.sdk.types;

/** How much of an upstream role's work an edge lets through. */
public enum PropagationPolicy {
  FINAL_RESPONSE_ONLY,
  TOOL_RESULTS,
  FULL_HISTORY;

  /** Returns the policy as a message's value. */
  public dev.archon.api.common.v1.PropagationPolicy proto() {
    return dev.archon.api.common.v1.PropagationPolicy.forNumber(ordinal() + 1);
  }

  /** Returns the policy with a number; the narrowest one if it is unset or unknown. */
  public static PropagationPolicy of(int number) {
    return number < 1 || number > values().length ? FINAL_RESPONSE_ONLY : values()[number - 1];
  }
}
