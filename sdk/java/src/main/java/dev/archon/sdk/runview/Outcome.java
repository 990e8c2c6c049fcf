package dev.archon.sdk.runview;

/** How an attempt ended; WORKING if it has not. ASKED: it ended with a question to a person. */
public enum Outcome {
  WORKING,
  COMPLETED,
  FAILED,
  CANCELED,
  REJECTED,
  GIVEN_BACK,
  RETRIED,
  LOST,
  ASKED
}
