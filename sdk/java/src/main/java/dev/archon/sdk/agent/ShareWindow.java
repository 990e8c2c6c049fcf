package dev.archon.sdk.agent;

import dev.archon.sdk.internal.Loop;

/** The number of tasks that a session may have in flight besides other sessions. */
final class ShareWindow {
  private static final double LOWERED_GRACE = 2.0;

  private int share;
  private int earlier;
  private double loweredAt = Double.NEGATIVE_INFINITY;

  void set(int value) {
    if (value < share) {
      earlier = allowed();
      loweredAt = Loop.now();
    }
    share = value;
  }

  /** Returns the share, or the earlier one if it was lowered a moment ago: tasks may have been on their way. */
  int allowed() {
    return Loop.now() - loweredAt < LOWERED_GRACE ? Math.max(share, earlier) : share;
  }
}
