package dev.archon.sdk.internal;

/**
 * A serialised frame: {@code head + content} is the field {@code frames} (1, repeated) of a message of a session. {@code taskId}
 * is null for a frame about the session itself.
 */
public record OutgoingFrame(String taskId, byte[] head, byte[] content) {
  /** Returns the bytes that the frame takes in a message. */
  public int size() {
    return head.length + content.length;
  }
}
