package dev.archon.sdk.tools;

import dev.archon.api.tool.v1.ToolResult;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * One execution of a shared tool, which one or several callers with the same idempotency key wait for. It ends with a result, or with
 * an error if it was ended from outside: its lease was revoked, its owner stops, or no caller waits for it any more.
 */
final class Execution {
  private static final int MAX_PROGRESS = 1_000;

  /** A caller that waits. Called by any thread, without a lock. */
  interface Listener {
    void progress(String text);

    void done(ToolResult result, ArchonException error);
  }

  final Lease lease;
  final double began = System.nanoTime() / 1e9;
  private final double seconds;
  private final Consumer<Execution> ended;
  private final Consumer<Execution> left;
  private final List<Listener> listeners = new ArrayList<>();
  private Thread thread;
  private boolean hasLeft;
  private ToolResult result;
  private ArchonException error;

  Execution(Lease lease, double seconds, Consumer<Execution> ended, Consumer<Execution> left) {
    this.lease = lease;
    this.seconds = seconds;
    this.ended = ended;
    this.left = left;
  }

  synchronized boolean isDone() {
    return result != null || error != null;
  }

  synchronized boolean hasLeft() {
    return hasLeft;
  }

  synchronized ToolResult result() {
    return result;
  }

  synchronized ArchonException error() {
    return error;
  }

  /** Executes the call on this thread; it is interrupted after its time. */
  void run(Callable<String> call, ScheduledExecutorService timers) {
    var timer = timers.schedule(() -> finish(late(seconds), null), (long) (seconds * 1000), TimeUnit.MILLISECONDS);
    synchronized (this) {
      if (isDone()) {
        hasLeft = true;
      } else {
        thread = Thread.currentThread();
      }
    }
    SharedToolResult value = null;
    if (!hasLeft()) {
      try {
        value = SharedToolResult.json(call.call());
      } catch (Throwable raised) {
        value = SharedToolResult.error(Failures.of(raised, "tool.crash"));
      }
    }
    timer.cancel(false);
    synchronized (this) {
      thread = null;
      hasLeft = true;
      Thread.interrupted();
      notifyAll();
    }
    if (value != null) {
      finish(encoded(value.took(System.nanoTime() / 1e9 - began)), null);
    }
    left.accept(this);
  }

  private static ToolResult encoded(SharedToolResult value) {
    String fault = "";
    if (value.ok()) {
      int size = Texts.bytes(value.contentJson() == null ? "" : value.contentJson());
      if (value.contentJson() == null || !SharedToolResult.isJson(value.contentJson())) {
        fault = "the result is not a JSON value";
      } else if (size > SharedToolResult.MAX_RESULT_BYTES) {
        fault = String.format("the result has %,d bytes, more than the %,d of a shared tool", size, SharedToolResult.MAX_RESULT_BYTES);
      }
    }
    if (fault.isEmpty()) {
      return value.proto();
    }
    ArchonException error = ArchonException.of(Reasons.INVALID_ARGUMENT, fault).kind("tool.crash").build();
    return SharedToolResult.error(error).took(value.seconds()).proto();
  }

  static ToolResult late(double seconds) {
    String text = "no answer within " + Math.round(seconds * 100) / 100.0 + " s";
    return new SharedToolResult(ToolStatus.TIMEOUT, "", text, seconds, java.util.Map.of()).proto();
  }

  /** Passes on progress to each caller that waits. */
  void report(String text) {
    String shown = Texts.clean(Texts.head(text, MAX_PROGRESS));
    List<Listener> waiting;
    synchronized (this) {
      waiting = isDone() ? List.of() : List.copyOf(listeners);
    }
    waiting.forEach(listener -> listener.progress(shown));
  }

  /** Ends it with an error, unless its outcome is known: callers get the error at once, and the tool is interrupted. */
  void end(ArchonException reason) {
    finish(null, reason);
  }

  private void finish(ToolResult outcome, ArchonException reason) {
    List<Listener> waiting;
    synchronized (this) {
      if (isDone()) {
        return;
      }
      result = outcome;
      error = reason;
      if (thread != null) {
        thread.interrupt();
      }
      waiting = List.copyOf(listeners);
      listeners.clear();
    }
    ended.accept(this);
    waiting.forEach(listener -> listener.done(outcome, reason));
  }

  /** Adds a caller; it is told at once if the outcome is known. */
  void listen(Listener listener) {
    synchronized (this) {
      if (!isDone()) {
        listeners.add(listener);
        return;
      }
    }
    listener.done(result(), error());
  }

  /** Removes a caller that leaves; if it was the last one, the execution is cancelled. */
  void leave(Listener listener) {
    boolean wasLast;
    synchronized (this) {
      wasLast = listeners.remove(listener) && listeners.isEmpty();
    }
    if (wasLast) {
      end(ArchonException.of(Reasons.CANCELLED, "the caller cancelled the call").build());
    }
  }

  /** Waits until the tool has returned, at most so many seconds. */
  synchronized boolean awaitLeft(double most) throws InterruptedException {
    double until = System.nanoTime() / 1e9 + most;
    while (!hasLeft) {
      long rest = (long) ((until - System.nanoTime() / 1e9) * 1000);
      if (rest <= 0) {
        return false;
      }
      wait(rest);
    }
    return true;
  }
}
