package dev.archon.sdk.tools;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.types.TaskRef;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The leases that are in force, in the order of their last use. Guarded by its owner's lock. */
final class LeaseTable {
  static final double LEASE_SECONDS = 600.0;
  static final double MAX_LEASE_SECONDS = 3600.0;
  private static final int MAX_LEASES = 4_096;
  private static final double IDLE_SECONDS = 60.0;

  private final SecureRandom random = new SecureRandom();
  private final Map<String, Lease> leases = new LinkedHashMap<>(16, 0.75f, true);

  /** Adds a lease. Throws RESOURCE_EXHAUSTED, with a delay, if there are too many. */
  Lease grant(String toolName, double seconds, int rate, TaskRef task, String instanceId) {
    double now = now();
    if (leases.size() >= MAX_LEASES) {
      makeRoom(now);
    }
    byte[] secret = new byte[24];
    random.nextBytes(secret);
    String id = Base64.getUrlEncoder().withoutPadding().encodeToString(secret);
    Lease lease = new Lease(id, toolName, now + seconds, task, instanceId, rate > 0 ? new CallWindow(rate) : null, now);
    leases.put(id, lease);
    return lease;
  }

  /** Returns a lease, which counts as its use. Throws LEASE_EXPIRED if it is not in force. */
  Lease find(String id) {
    Lease lease = leases.get(id);
    if (lease != null && lease.expiresAt <= now()) {
      leases.remove(id);
      lease = null;
    }
    if (lease == null) {
      String text = "the lease of the tool has expired, was revoked, or never existed: lease the tool again";
      throw ArchonException.of(Reasons.LEASE_EXPIRED, text).build();
    }
    lease.usedAt = now();
    return lease;
  }

  Lease remove(String id) {
    return leases.remove(id);
  }

  List<Lease> all() {
    double now = now();
    leases.values().removeIf(lease -> lease.expiresAt <= now);
    return List.copyOf(leases.values());
  }

  void clear() {
    leases.clear();
  }

  private void makeRoom(double now) {
    if (leases.values().removeIf(lease -> lease.expiresAt <= now)) {
      return;
    }
    Lease oldest = leases.values().stream().filter(lease -> lease.calls == 0).findFirst().orElse(null);
    double idle = oldest == null ? 0 : now - oldest.usedAt;
    if (idle < IDLE_SECONDS) {
      String text = String.format("this instance has %,d leases of tools in use", MAX_LEASES);
      throw ArchonException.of(Reasons.RESOURCE_EXHAUSTED, text).retryDelay(Math.max(1, IDLE_SECONDS - idle)).build();
    }
    leases.remove(oldest.id);
  }

  private static double now() {
    return System.nanoTime() / 1e9;
  }
}
