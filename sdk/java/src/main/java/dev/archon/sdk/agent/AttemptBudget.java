package dev.archon.sdk.agent;

import dev.archon.api.common.v1.Budget;
import dev.archon.api.common.v1.Usage;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The slice of its run's budget that an attempt may spend. It limits the kinds (tokens, cost, calls of models) that the first slice
 * names. Reservations for calls in progress count as spent until they are settled.
 */
final class AttemptBudget {
  private final boolean isLimited;
  private final long[] granted;
  private final boolean[] limits = new boolean[3];
  private final Deque<long[]> reserved = new ArrayDeque<>();

  AttemptBudget(Budget first, boolean isLimited) {
    this.isLimited = isLimited;
    granted = amounts(first);
    for (int kind = 0; kind < 3; kind++) {
      limits[kind] = isLimited && granted[kind] > 0;
    }
  }

  boolean isLimited() {
    return isLimited;
  }

  synchronized void add(Budget budget) {
    long[] more = amounts(budget);
    for (int kind = 0; kind < 3; kind++) {
      granted[kind] += more[kind];
    }
  }

  /** Returns the grant needed before a call of this size, or null if the slice covers it, which is then reserved. */
  synchronized Budget reserve(Usage spent, long tokens, long cost, long calls) {
    long[] used = {spent.getInputTokens() + spent.getOutputTokens(), spent.getCostMicroUsd(), spent.getModelCalls()};
    long[] wanted = {tokens, cost, calls};
    long[] more = new long[3];
    boolean isMissing = false;
    for (int kind = 0; kind < 3; kind++) {
      long held = used[kind];
      for (long[] each : reserved) {
        held += each[kind];
      }
      more[kind] = limits[kind] ? Math.max(0, held + wanted[kind] - granted[kind]) : 0;
      isMissing |= more[kind] > 0;
    }
    if (!isMissing) {
      if (isLimited) {
        reserved.add(wanted);
      }
      return null;
    }
    return Budget.newBuilder().setMaxTokens(more[0]).setMaxCostMicroUsd(more[1]).setMaxModelCalls(more[2]).build();
  }

  /** Releases the oldest reservation: its call was made, and the usage counts instead. */
  synchronized void settle() {
    reserved.poll();
  }

  private static long[] amounts(Budget budget) {
    return new long[] {budget.getMaxTokens(), budget.getMaxCostMicroUsd(), budget.getMaxModelCalls()};
  }
}
