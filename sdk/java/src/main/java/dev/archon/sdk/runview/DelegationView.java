package dev.archon.sdk.runview;

import dev.archon.sdk.errors.ArchonException;

/** A delegation, which ends with the delegated task, unless it was refused, or cancelled before (0: it was not). */
public final class DelegationView {
  final String delegationId;
  final String childTaskId;
  final String role;
  final double started;
  double cancelled;
  ArchonException refusal;

  DelegationView(String delegationId, String childTaskId, String role, double started) {
    this.delegationId = delegationId;
    this.childTaskId = childTaskId;
    this.role = role;
    this.started = started;
  }

  /** Returns its id, unique in its attempt. */
  public String delegationId() {
    return delegationId;
  }

  /** Returns the delegated task; empty if it was refused. */
  public String childTaskId() {
    return childTaskId;
  }

  /** Returns the role of the delegated task. */
  public String role() {
    return role;
  }

  /** Returns when it was cancelled, in seconds since the epoch; 0 if it was not. */
  public double cancelled() {
    return cancelled;
  }

  /** Returns why it was refused; null if it was not. */
  public ArchonException refusal() {
    return refusal;
  }
}
