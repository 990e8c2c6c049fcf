package dev.archon.sdk.registry;

/**
 * The terms on which a tool is shared, and how the calls of other agents have ended. {@code maxCallsPerMinute} is for one lease, 0 if
 * unlimited; {@code successRate} is 0 to 1; {@code meanLatency} is in seconds, of the last 100 calls.
 */
public record ToolShare(int maxCallsPerMinute, long calls, double successRate, double meanLatency) {}
