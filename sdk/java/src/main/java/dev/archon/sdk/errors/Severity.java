package dev.archon.sdk.errors;

/** How severe a failure is, with the numbers of {@code archon.api.common.v1.Severity}. */
public enum Severity {
  LOW,
  MEDIUM,
  HIGH,
  CRITICAL;

  /** Returns the number in messages. */
  public int number() {
    return ordinal() + 1;
  }

  /** Returns the severity with a number; null if it is unset or unknown to this version. */
  public static Severity of(int number) {
    return number < 1 || number > values().length ? null : values()[number - 1];
  }
}
