package dev.archon.sdk.agent;

import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.PropagationPolicy;
import java.util.List;
import java.util.Map;

/** The answer of an upstream role. {@code version} is 0 if it comes from the run itself, not from shared memory. */
public record ContextItem(
    String role,
    String text,
    List<Part> parts,
    long version,
    String stepId,
    PropagationPolicy policy,
    Map<String, String> metadata) {
  static ContextItem of(dev.archon.api.common.v1.ContextItem item) {
    return new ContextItem(
        item.getRef().getRole(),
        Wire.textOf(item.getPartsList()),
        Part.of(item.getPartsList()),
        item.getRef().getVersion(),
        item.getStepId(),
        PropagationPolicy.of(item.getPolicyValue()),
        item.getMetadataMap());
  }
}
