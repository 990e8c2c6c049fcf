package dev.archon.sdk.tools;

import dev.archon.sdk.registry.ToolShare;
import java.util.ArrayDeque;
import java.util.Deque;

/** How the calls of one tool have ended, as its owner advertises it. Guarded by its owner's lock. */
final class ToolFigures {
  private static final int RECENT = 100;

  private long calls;
  private long succeeded;
  private final Deque<Double> seconds = new ArrayDeque<>();

  void count(double took, boolean ok) {
    calls++;
    succeeded += ok ? 1 : 0;
    seconds.add(took);
    if (seconds.size() > RECENT) {
      seconds.poll();
    }
  }

  ToolShare share(int maxCallsPerMinute) {
    double mean = seconds.stream().mapToDouble(Double::doubleValue).average().orElse(0);
    double rate = calls == 0 ? 0 : (double) succeeded / calls;
    return new ToolShare(maxCallsPerMinute, calls, Math.round(rate * 1e4) / 1e4, Math.round(mean * 1e6) / 1e6);
  }

  /** Returns whether the figures have changed so much that callers would choose differently. */
  static boolean differNotably(ToolShare advertised, ToolShare current) {
    if (advertised == null || current == null) {
      return advertised != current;
    }
    if (advertised.maxCallsPerMinute() != current.maxCallsPerMinute()) {
      return true;
    }
    if (current.calls() < 1 || advertised.calls() == current.calls()) {
      return false;
    }
    if (advertised.calls() == 0 || current.calls() >= 4 * Math.max(1, advertised.calls())) {
      return true;
    }
    double step = Math.abs(advertised.meanLatency() - current.meanLatency());
    return Math.abs(advertised.successRate() - current.successRate()) >= 0.05
        || (step >= 0.01 && step >= 0.25 * advertised.meanLatency());
  }
}
