package dev.archon.sdk.tools;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.util.ArrayDeque;
import java.util.Deque;

/** Calls per minute: a window that slides, and refuses further calls. Guarded by its owner's lock. */
final class CallWindow {
  private static final double MINUTE = 60.0;

  private final int rate;
  private final Deque<Double> starts = new ArrayDeque<>();

  CallWindow(int rate) {
    this.rate = rate;
  }

  /** Throws RESOURCE_EXHAUSTED, with the delay, if a call may not start now. */
  void check(String tool) {
    double now = System.nanoTime() / 1e9;
    double delay = starts.size() < rate ? 0 : starts.peek() + MINUTE - now;
    if (delay > 0) {
      String text =
          String.format("tool %s may be called %d times per minute: the next call in %.0f s", tool, rate, delay);
      throw ArchonException.of(Reasons.RESOURCE_EXHAUSTED, text).retryDelay(delay).metadata("tool", tool).build();
    }
  }

  void take() {
    if (starts.size() >= rate) {
      starts.poll();
    }
    starts.add(System.nanoTime() / 1e9);
  }
}
