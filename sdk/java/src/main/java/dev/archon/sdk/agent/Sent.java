package dev.archon.sdk.agent;

/** A message that the journal of the run has: its id, and the number of its event. */
public record Sent(String messageId, long seq) {}
