package dev.archon.sdk.errors;

/** Whether a retry may succeed, with the numbers of {@code archon.api.common.v1.Retry}. */
public enum RetryAdvice {
  NEVER,
  LATER,
  ELSEWHERE;

  /** Returns the number in messages. */
  public int number() {
    return ordinal() + 1;
  }

  /** Returns the advice with a number; null if it is unset or unknown to this version. */
  public static RetryAdvice of(int number) {
    return number < 1 || number > values().length ? null : values()[number - 1];
  }
}
