package dev.archon.sdk.internal;

import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * One thread that owns the state of an agent: it applies frames, echoes heartbeats and runs timers, and never waits.
 *
 * <p>What is executed after {@link #close} is dropped.
 */
public final class Loop implements Executor, AutoCloseable {
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private final ScheduledThreadPoolExecutor pool;
  private volatile Thread thread;

  /** Starts the thread at its first work. */
  public Loop(String name) {
    pool =
        new ScheduledThreadPoolExecutor(
            1,
            runnable -> {
              Thread made = new Thread(runnable, name);
              made.setDaemon(true);
              thread = made;
              return made;
            });
    pool.setRemoveOnCancelPolicy(true);
    pool.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
  }

  @Override
  public void execute(Runnable work) {
    try {
      pool.execute(guarded(work));
    } catch (RejectedExecutionException closed) {
      LOG.log(System.Logger.Level.TRACE, "work for a loop that has ended");
    }
  }

  /** Runs the work now if this is the loop's thread, else later. */
  public void run(Runnable work) {
    if (isCurrent()) {
      work.run();
    } else {
      execute(work);
    }
  }

  /** Runs the work after a time. Returns null if the loop has ended. */
  public Future<?> schedule(double seconds, Runnable work) {
    try {
      return pool.schedule(guarded(work), (long) (Math.max(0, seconds) * 1e9), TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException closed) {
      return null;
    }
  }

  /** Runs the work at once if this is the loop's thread, else there, and returns its outcome. */
  public <T> CompletableFuture<T> call(Callable<T> work) {
    CompletableFuture<T> outcome = new CompletableFuture<>();
    Runnable runnable =
        () -> {
          try {
            outcome.complete(work.call());
          } catch (Throwable error) {
            outcome.completeExceptionally(error);
          }
        };
    if (isCurrent()) {
      runnable.run();
      return outcome;
    }
    try {
      pool.execute(runnable);
    } catch (RejectedExecutionException closed) {
      outcome.completeExceptionally(closed);
    }
    return outcome;
  }

  /** Returns whether this is the loop's thread. */
  public boolean isCurrent() {
    return Thread.currentThread() == thread;
  }

  private static Runnable guarded(Runnable work) {
    return () -> {
      try {
        work.run();
      } catch (Throwable error) {
        LOG.log(System.Logger.Level.ERROR, "unexpected error in a loop", error);
      }
    };
  }

  @Override
  public void close() {
    pool.shutdownNow();
    if (!isCurrent()) {
      try {
        pool.awaitTermination(2, TimeUnit.SECONDS);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Cancels a timer, if there is one. */
  public static void cancel(Future<?> timer) {
    if (timer != null) {
      timer.cancel(false);
    }
  }

  /** Returns the monotonic clock of the process in seconds. */
  public static double now() {
    return System.nanoTime() / 1e9;
  }
}
