package dev.archon.sdk.agent;

import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;

/** The errors with which an agent refuses a frame, a task or a stream. */
final class Rejections {
  /** Characters of an orchestrator's id, a run id or a task id. */
  static final int MAX_ID = 256;

  private Rejections() {}

  /** Ends the whole stream; other errors refuse one frame. */
  static final class StreamRefused extends ArchonException {
    private static final long serialVersionUID = 1L;

    StreamRefused(Builder builder) {
      super(builder);
    }
  }

  static StreamRefused exhausted(String text, double delay) {
    ArchonException.Builder error = ArchonException.of(Reasons.RESOURCE_EXHAUSTED, text);
    return new StreamRefused(delay > 0 ? error.retryDelay(delay) : error);
  }

  static boolean isId(String text) {
    return !text.isEmpty() && Texts.characters(text) <= MAX_ID;
  }

  static void checkRef(TaskRef ref) {
    String rule = "must be 1 to " + MAX_ID + " characters";
    if (!isId(ref.getTaskId())) {
      throw ArchonException.invalid("task.task_id", rule);
    }
    if (!isId(ref.getRunId())) {
      throw ArchonException.invalid("task.run_id", rule);
    }
  }

  static ArchonException notYours(TaskRef ref) {
    String text = "task " + ref.getTaskId() + " was assigned by another orchestrator, or belongs to another run";
    return ArchonException.of(Reasons.PERMISSION_DENIED, text).metadata("task_id", ref.getTaskId()).build();
  }

  static ArchonException unknown(String arm) {
    return ArchonException.of(Reasons.UNKNOWN_FRAME, "unknown frame " + (arm.isEmpty() ? "of a newer version" : arm)).build();
  }

  static ArchonException replaced(String orchestratorId) {
    String text = "a newer stream of the same orchestrator took over";
    return ArchonException.of(Reasons.SESSION_REPLACED, text).metadata("id", orchestratorId).build();
  }

  static ArchonException draining() {
    return ArchonException.of(Reasons.DRAINING, "this instance is draining").build();
  }

  static ArchonException noCapacity(double retryDelay) {
    return ArchonException.of(Reasons.NO_CAPACITY, "this instance has no free slot").retryDelay(retryDelay).build();
  }

  static ArchonException gap(long got, long expected) {
    return ArchonException.of(Reasons.SEQUENCE_GAP, "sequence gap: got " + got + ", expected " + expected)
        .metadata("expected", Long.toString(expected))
        .build();
  }

  static ArchonException unsupported(String feature) {
    String text = "the caller of this task does not support the feature " + feature;
    return ArchonException.of(Reasons.NOT_SERVED, text).build();
  }
}
