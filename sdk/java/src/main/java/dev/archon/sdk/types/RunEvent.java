package dev.archon.sdk.types;

import dev.archon.api.orchestrator.v1.RunEvent.EventCase;
import dev.archon.sdk.internal.Wire;
import java.util.Locale;

/** An event of a run. Its content is the arm of {@link #proto} that {@link #type} names. */
public record RunEvent(dev.archon.api.orchestrator.v1.RunEvent proto) {
  /** Returns the run. */
  public String runId() {
    return proto.getRunId();
  }

  /** Returns the event's number in the run, contiguous from 1; 0 for a transient event, such as a piece of text. */
  public long seq() {
    return proto.getSeq();
  }

  /** Returns when it was decided, in seconds since the epoch. */
  public double time() {
    return Wire.seconds(proto.getTime());
  }

  /** Returns the kind of event, such as {@code dispatched} or {@code text_delta}; empty if it is unknown to this version. */
  public String type() {
    EventCase arm = proto.getEventCase();
    return arm == EventCase.EVENT_NOT_SET ? "" : arm.name().toLowerCase(Locale.ROOT);
  }

  /** Returns the task that the event concerns; empty if it concerns the run. */
  public String taskId() {
    return proto.getTask().getTaskId();
  }

  /** Returns whether this is the last event of the run. */
  public boolean isLast() {
    return proto.hasRunState() && TaskState.of(proto.getRunState().getStateValue()).isFinal();
  }
}
