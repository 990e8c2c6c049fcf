package dev.archon.sdk.runview;

/** A question to a person. Times are in seconds since the epoch; 0 if the event has not occurred. */
public final class QuestionView {
  final String inputId;
  final String role;
  String text = "";
  String schemaJson = "";
  boolean isApproval;
  boolean continues;
  int attempt;
  double asked;
  double ended;
  String answer;
  String decision = "";
  String identity = "";
  String timedOut = "";

  QuestionView(String inputId, String role) {
    this.inputId = inputId;
    this.role = role;
  }

  /** Returns the id by which {@link dev.archon.sdk.Client#respond} answers it. */
  public String inputId() {
    return inputId;
  }

  /** Returns the role that asks. */
  public String role() {
    return role;
  }

  /** Returns the question. */
  public String text() {
    return text;
  }

  /** Returns the JSON Schema of the answer; empty if any answer is valid. */
  public String schemaJson() {
    return schemaJson;
  }

  /** Returns whether a decision is expected: approve, reject or modify. */
  public boolean isApproval() {
    return isApproval;
  }

  /** Returns whether the attempt goes on meanwhile; otherwise it has ended with the question. */
  public boolean continues() {
    return continues;
  }

  /** Returns when it was asked. */
  public double asked() {
    return asked;
  }

  /** Returns the time of the answer, or at which it was withdrawn. */
  public double ended() {
    return ended;
  }

  /** Returns the text of the answer, which is encrypted if it is secret; null if there is none. */
  public String answer() {
    return answer;
  }

  /** Returns {@code approve}, {@code reject} or {@code modify}; empty if the question is no approval. */
  public String decision() {
    return decision;
  }

  /** Returns the identity that answered. */
  public String identity() {
    return identity;
  }

  /** Returns the policy that was applied when no answer came in time: abort, default or escalate; empty if none was. */
  public String timedOut() {
    return timedOut;
  }
}
