package dev.archon.sdk.memory;

import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.PropagationPolicy;
import java.util.Map;

/** The last answer of one role in a scope, or of one of its tasks. {@code time} is in seconds since the Unix epoch. */
public record MemoryItem(
    String role,
    String content,
    double time,
    long version,
    PropagationPolicy policy,
    Map<String, String> metadata,
    String runId,
    String taskId) {
  static MemoryItem of(dev.archon.api.memory.v1.MemoryItem message) {
    return new MemoryItem(
        message.getSourceRole(),
        message.getContent(),
        Wire.seconds(message.getPublishTime()),
        message.getVersion(),
        PropagationPolicy.of(message.getPolicyValue()),
        Map.copyOf(message.getMetadataMap()),
        message.getOrigin().getRunId(),
        message.getTaskId());
  }
}
