package dev.archon.sdk;

import dev.archon.api.orchestrator.v1.OrchestratorServiceGrpc;
import dev.archon.api.orchestrator.v1.WatchRunRequest;
import dev.archon.api.orchestrator.v1.WatchRunResponse;
import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.types.RunEvent;
import io.grpc.Channel;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The events of a run: every durable event once and in order, and transient events (seq 0) as they come, to the run's last event. Where
 * the stream breaks it resumes after the last event. Used by one thread, which it makes wait; {@link #close} by any.
 *
 * <p>An interrupt ends the watch: {@link #next} throws CANCELLED, and leaves the thread interrupted.
 */
public final class RunWatch implements Iterable<RunEvent>, AutoCloseable {
  private static final double PATIENCE = 60.0;
  private static final double SILENCE = 45.0; // an empty batch comes every 15 s

  private final Channel channel;
  private final String runId;
  private final boolean durableOnly;
  private final Deque<RunEvent> waiting = new ArrayDeque<>();
  private long afterSeq;
  private Calls.ServerStream<WatchRunResponse> stream;
  private double heard = System.nanoTime() / 1e9;
  private boolean hasExpired;
  private boolean isOver;
  private boolean isClosed;

  RunWatch(Channel channel, String runId, long afterSeq, boolean durableOnly) {
    this.channel = channel;
    this.runId = runId;
    this.afterSeq = afterSeq;
    this.durableOnly = durableOnly;
  }

  /** Returns the number of the last durable event that was returned. */
  public long lastSeq() {
    return afterSeq;
  }

  /** Returns an iterator over the events that were not returned yet. */
  @Override
  public Iterator<RunEvent> iterator() {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return RunWatch.this.hasNext();
      }

      @Override
      public RunEvent next() {
        return RunWatch.this.next();
      }
    };
  }

  /** Returns whether the run has a further event, and waits for it. */
  public boolean hasNext() {
    try {
      while (waiting.isEmpty() && !isOver) {
        read();
      }
      return !waiting.isEmpty();
    } catch (InterruptedException interrupted) {
      close();
      Thread.currentThread().interrupt();
      throw ArchonException.of(Reasons.CANCELLED, "the watch was interrupted").cause(interrupted).build();
    }
  }

  /** Returns the next event, and waits for it. Throws NoSuchElementException after the run's last event. */
  public RunEvent next() {
    if (!hasNext()) {
      throw new NoSuchElementException("the run has ended");
    }
    RunEvent event = waiting.poll();
    afterSeq = event.seq() != 0 ? event.seq() : afterSeq;
    return event;
  }

  /** Reads the next batch, or opens the stream again. */
  private void read() throws InterruptedException {
    try {
      WatchRunResponse batch = opened().next(SILENCE);
      if (batch == null) {
        isOver = true;
        return;
      }
      heard = System.nanoTime() / 1e9;
      hasExpired = false;
      batch.getEventsList().forEach(event -> waiting.add(new RunEvent(event)));
      return;
    } catch (ArchonException error) {
      boolean mayResume =
          switch (error.code()) {
            case UNAVAILABLE, ABORTED -> System.nanoTime() / 1e9 - heard <= PATIENCE;
            default -> error.is(Reasons.TOKEN_EXPIRED) && !hasExpired;
          };
      hasExpired = error.is(Reasons.TOKEN_EXPIRED);
      if (!mayResume || isClosed()) {
        isOver = true;
        throw error;
      }
    }
    drop();
    Thread.sleep(ThreadLocalRandom.current().nextLong(100, 400));
  }

  private synchronized Calls.ServerStream<WatchRunResponse> opened() {
    if (isClosed) {
      throw ArchonException.of(Reasons.CANCELLED, "the watch was closed").build();
    }
    if (stream == null) {
      WatchRunRequest request =
          WatchRunRequest.newBuilder().setRunId(runId).setAfterSeq(afterSeq).setDurableOnly(durableOnly).build();
      stream = Calls.serverStream(channel, OrchestratorServiceGrpc.getWatchRunMethod(), request, 0);
    }
    return stream;
  }

  private synchronized boolean isClosed() {
    return isClosed;
  }

  private synchronized void drop() {
    if (stream != null) {
      stream.close();
      stream = null;
    }
  }

  /** Ends the watch; the run goes on. Idempotent. */
  @Override
  public synchronized void close() {
    isClosed = true;
    drop();
  }
}
