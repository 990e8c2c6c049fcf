package dev.archon.sdk.runview;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.types.Usage;
import java.util.ArrayList;
import java.util.List;

/** One dispatch of a task to an instance. Times are in seconds since the epoch. */
public final class AttemptView {
  final int number;
  final String instanceId;
  final double started;
  double ended;
  Outcome outcome = Outcome.WORKING;
  ArchonException failure;
  ArchonException stopping;
  Usage usage;
  double retryTime;
  boolean budgetRefused;
  boolean discarded;
  final List<DelegationView> delegations = new ArrayList<>();

  AttemptView(int number, String instanceId, double started) {
    this.number = number;
    this.instanceId = instanceId;
    this.started = started;
  }

  void end(double now, Outcome how, ArchonException why) {
    if (ended == 0) {
      ended = now;
      outcome = how;
      failure = why;
    }
  }

  /** Returns its number, from 1. */
  public int number() {
    return number;
  }

  /** Returns the instance. */
  public String instanceId() {
    return instanceId;
  }

  /** Returns when it was dispatched. */
  public double started() {
    return started;
  }

  /** Returns when it ended; 0 while it goes on. */
  public double ended() {
    return ended;
  }

  /** Returns how it ended. */
  public Outcome outcome() {
    return outcome;
  }

  /** Returns why it failed; null if it did not. */
  public ArchonException failure() {
    return failure;
  }

  /** Returns why it was ordered to stop; null if it was not. */
  public ArchonException stopping() {
    return stopping;
  }

  /** Returns its usage; null if no event has it. */
  public Usage usage() {
    return usage;
  }

  /** Returns the earliest time of the next attempt; 0 if it may start at once. */
  public double retryTime() {
    return retryTime;
  }

  /** Returns whether a request for more of the budget was refused. */
  public boolean budgetRefused() {
    return budgetRefused;
  }

  /** Returns whether a result came too late. */
  public boolean discarded() {
    return discarded;
  }

  /** Returns its delegations. */
  public List<DelegationView> delegations() {
    return List.copyOf(delegations);
  }
}
