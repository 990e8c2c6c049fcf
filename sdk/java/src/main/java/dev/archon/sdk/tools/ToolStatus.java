package dev.archon.sdk.tools;

/** How a call of a shared tool ended, with the numbers of {@code archon.api.tool.v1.ToolStatus}. */
public enum ToolStatus {
  SUCCESS,
  ERROR,
  TIMEOUT;

  /** Returns the number in messages. */
  public int number() {
    return ordinal() + 1;
  }

  /** Returns the status with a number; null if it is unset or unknown. */
  public static ToolStatus of(int number) {
    return number < 1 || number > values().length ? null : values()[number - 1];
  }
}
