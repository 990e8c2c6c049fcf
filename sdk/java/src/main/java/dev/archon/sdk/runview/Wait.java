package dev.archon.sdk.runview;

import java.util.List;

/** Why a task waits. {@code names} are the names of the tasks: predecessors, or tasks that it has delegated. */
public record Wait(Kind kind, List<String> names) {
  /** For other tasks, the answer of a person, the run to be resumed, or an instance. */
  public enum Kind {
    TASKS,
    PERSON,
    RESUME,
    INSTANCE
  }
}
