package dev.archon.sdk.types;

/** State of a run or a task; UNKNOWN is one that this version does not know. */
public enum TaskState {
  UNSPECIFIED,
  SUBMITTED,
  WORKING,
  COMPLETED,
  FAILED,
  CANCELED,
  INPUT_REQUIRED,
  REJECTED,
  AUTH_REQUIRED,
  UNKNOWN;

  /** Returns whether no other state can follow. */
  public boolean isFinal() {
    return this == COMPLETED || this == FAILED || this == CANCELED || this == REJECTED;
  }

  /** Returns the state with a number. */
  public static TaskState of(int number) {
    return number < 0 || number >= UNKNOWN.ordinal() ? UNKNOWN : values()[number];
  }

  /** Returns the state as a message's value; UNSPECIFIED if it is unknown. */
  public dev.archon.api.common.v1.TaskState proto() {
    return dev.archon.api.common.v1.TaskState.forNumber(this == UNKNOWN ? 0 : ordinal());
  }
}
