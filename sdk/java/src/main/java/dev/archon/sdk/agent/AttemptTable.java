package dev.archon.sdk.agent;

import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Loop;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * All attempts of an agent, one per task: in progress, or finished and parked until the result is acked. They belong to the agent,
 * not to a stream. Used by the loop.
 */
final class AttemptTable implements Iterable<Attempt> {
  private static final int MAX_EPOCHS = 10_000;
  private static final int MAX_OVER = 10_000;
  private static final long MAX_PARKED_BYTES = 64L * 1024 * 1024;
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private record Over(String runId, String taskId, int attempt) {}

  /** Attempts whose handler has not ended, also those that are over without it. */
  final Set<Attempt> running = new HashSet<>();

  /** Running attempts that are over: their handler did not end when it was cancelled. */
  final Set<Attempt> abandoned = new HashSet<>();

  final int capacity;
  private final Runnable onChanged;
  private final Map<String, Attempt> attempts = new LinkedHashMap<>();
  private final Map<Attempt, Long> keptBytes = new HashMap<>();
  private final Map<String, Long> epochs = bounded(MAX_EPOCHS, true);
  private final Map<Over, Boolean> over = bounded(MAX_OVER, false);
  private long parkedBytes;

  AttemptTable(int capacity, Runnable onChanged) {
    this.capacity = capacity;
    this.onChanged = onChanged;
  }

  private static <K, V> Map<K, V> bounded(int most, boolean byAccess) {
    return new LinkedHashMap<>(16, 0.75f, byAccess) {
      private static final long serialVersionUID = 1L;

      @Override
      protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
        return size() > most;
      }
    };
  }

  @Override
  public Iterator<Attempt> iterator() {
    return new ArrayList<>(attempts.values()).iterator();
  }

  int size() {
    return attempts.size();
  }

  /** Returns the attempt at this task that is held, whatever its number; or null. */
  Attempt newest(String taskId) {
    return attempts.get(taskId);
  }

  /** Adds an attempt. An older one at the same task is stopped and dropped: its result could not count. */
  void add(Attempt attempt) {
    Attempt older = attempts.get(attempt.ref().getTaskId());
    if (older != null) {
      older.leave();
      older.cancel(false);
    }
    attempts.put(attempt.ref().getTaskId(), attempt);
    if (older != null) {
      recount(older);
    }
  }

  /** Drops an attempt whose result was acked or does not count, and remembers for a while that it is over. */
  void drop(Attempt attempt) {
    markOver(attempt.ref());
    if (attempts.get(attempt.ref().getTaskId()) == attempt) {
      attempts.remove(attempt.ref().getTaskId());
      recount(attempt);
    }
    attempt.leave();
    attempt.cancel(false);
    changed();
  }

  void markOver(TaskRef ref) {
    over.put(new Over(ref.getRunId(), ref.getTaskId(), ref.getAttempt()), true);
  }

  /** Returns whether the attempt is known to be over: a late copy of its assignment starts nothing. */
  boolean isOver(TaskRef ref) {
    return over.containsKey(new Over(ref.getRunId(), ref.getTaskId(), ref.getAttempt()));
  }

  /** Throws STALE_EPOCH below the highest epoch seen for the run; remembers a higher one. */
  void checkEpoch(TaskRef ref, Attempt held) {
    long highest = epochs.getOrDefault(ref.getRunId(), 0L);
    if (held != null) {
      highest = Math.max(highest, held.ref().getEpoch()); // that of a run may have been forgotten
    }
    if (ref.getEpoch() < highest) {
      String text =
          "epoch " + ref.getEpoch() + " of run " + ref.getRunId() + " is over; its owner has epoch " + highest;
      throw ArchonException.of(Reasons.STALE_EPOCH, text)
          .metadata("run_id", ref.getRunId())
          .metadata("epoch", Long.toString(highest))
          .build();
    }
    epochs.put(ref.getRunId(), ref.getEpoch());
  }

  /** Returns how many attempts have no result yet. */
  int working() {
    int count = 0;
    for (Attempt attempt : attempts.values()) {
      count += attempt.isWorking() ? 1 : 0;
    }
    return count;
  }

  /** Returns whether so many unacked bytes are parked that no credit may be given. */
  boolean isParkedFull() {
    return parkedBytes > MAX_PARKED_BYTES;
  }

  /** Counts the unacked bytes of an attempt anew. */
  void recount(Attempt attempt) {
    boolean isHeld = attempts.get(attempt.ref().getTaskId()) == attempt;
    long kept = isHeld ? attempt.channel().pendingBytes() : 0;
    Long before = keptBytes.remove(attempt);
    parkedBytes += kept - (before == null ? 0 : before);
    if (kept > 0) {
      keptBytes.put(attempt, kept);
    }
  }

  /** Drops results that were not acked within the time that the orchestrator asked for. */
  void expire() {
    double now = Loop.now();
    for (Attempt attempt : this) {
      if (!attempt.isWorking() && now - attempt.finishedAt() > attempt.parkTtl()) {
        LOG.log(System.Logger.Level.WARNING, "dropped the result of task {0}: it was never acked", attempt.ref().getTaskId());
        drop(attempt);
      }
    }
  }

  /** Frees the slot of an attempt. */
  void handlerEnded(Attempt attempt) {
    running.remove(attempt);
    abandoned.remove(attempt);
    changed();
  }

  void changed() {
    onChanged.run();
  }

  /** Cancels all handlers without sending results: the orchestrator finds the attempts lost. */
  void stop() {
    List<Attempt> all = new ArrayList<>(attempts.values());
    all.addAll(running);
    for (Attempt attempt : all) {
      attempt.leave();
      attempt.cancel(false);
    }
    attempts.clear();
    keptBytes.clear();
    parkedBytes = 0;
  }
}
