package dev.archon.sdk.registry;

import dev.archon.sdk.types.PropagationPolicy;

/** A dependency: the role waits for the answers of {@code role}. */
public record DependsOn(String role, PropagationPolicy policy) {
  /** Returns a dependency on final answers. */
  public static DependsOn of(String role) {
    return new DependsOn(role, PropagationPolicy.FINAL_RESPONSE_ONLY);
  }
}
