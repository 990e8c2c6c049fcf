package dev.archon.sdk.agent;

/** Works on the tasks of a role, each on a thread of its own, which is interrupted if the task is cancelled. */
@FunctionalInterface
public interface Handler {
  /**
   * Returns the text of the answer. An exception fails the task: an {@link dev.archon.sdk.errors.ArchonException} as the failure
   * that it is, any other one as a crash, whose text stays in the log of this process.
   */
  String handle(Task task) throws Exception;
}
