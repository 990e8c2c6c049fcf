package dev.archon.sdk.errors;

/** The kind of fault, with the numbers of {@code archon.api.common.v1.FailureClass}. */
public enum FailureClass {
  UNSPECIFIED,
  MODEL,
  TOOL,
  PLANNING,
  MEMORY,
  COLLABORATION,
  INFRASTRUCTURE,
  INPUT;

  /** Returns the class with a number; UNSPECIFIED if it is unknown to this version. */
  public static FailureClass of(int number) {
    return number < 0 || number >= values().length ? UNSPECIFIED : values()[number];
  }
}
