package dev.archon.sdk.agent;

import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.Usage;
import java.util.List;
import java.util.Map;

/** The answer to a delegation. {@code memoized}: an earlier attempt at this task had made the same delegation. */
public record Delegated(String text, List<Part> parts, Usage usage, boolean memoized, Map<String, String> metadata) {}
