package dev.archon.sdk.types;

/** Names one attempt at one task. */
public record TaskRef(String taskId, String runId, int attempt, long epoch) {
  /** Returns the reference as a message. */
  public dev.archon.api.common.v1.TaskRef proto() {
    return dev.archon.api.common.v1.TaskRef.newBuilder()
        .setTaskId(taskId)
        .setRunId(runId)
        .setAttempt(attempt)
        .setEpoch(epoch)
        .build();
  }

  /** Returns the reference that a message has. */
  public static TaskRef of(dev.archon.api.common.v1.TaskRef message) {
    return new TaskRef(message.getTaskId(), message.getRunId(), message.getAttempt(), message.getEpoch());
  }
}
