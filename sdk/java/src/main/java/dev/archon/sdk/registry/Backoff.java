package dev.archon.sdk.registry;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/** Which errors are transient, and how long to wait before trying again. */
public final class Backoff {
  private static final Set<String> TRANSIENT_REASONS =
      Set.of(Reasons.LEASE_EXPIRED, Reasons.TOKEN_EXPIRED, Reasons.CERTIFICATE_REFUSED);

  private Backoff() {}

  /** Returns whether trying again may help. */
  public static boolean isTransient(ArchonException error) {
    return switch (error.code()) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, INTERNAL, UNKNOWN, CANCELLED -> true;
      default -> TRANSIENT_REASONS.contains(error.reason());
    };
  }

  /** Returns the seconds to wait after an attempt (from 0): exponential with jitter, about as long as the error asks for. */
  public static double seconds(int attempt, ArchonException error, double longest) {
    double asked = error == null ? 0 : Math.min(longest, error.retryDelay().orElse(0));
    double own = Math.min(longest, 0.1 * Math.pow(2, Math.min(attempt, 10)));
    return Math.max(asked, own) * ThreadLocalRandom.current().nextDouble(0.5, 1.0);
  }

  /** Waits after an attempt. */
  public static void sleep(int attempt, ArchonException error, double longest) throws InterruptedException {
    Thread.sleep(Math.max(1, (long) (seconds(attempt, error, longest) * 1000)));
  }
}
