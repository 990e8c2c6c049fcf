package dev.archon.sdk.agent;

/** Works on the tasks of a role as a {@link Handler} does, and returns more than a text. */
@FunctionalInterface
public interface ReplyHandler {
  /** Returns an {@link Answer}, or a {@link Question} that ends the attempt. */
  Reply handle(Task task) throws Exception;
}
