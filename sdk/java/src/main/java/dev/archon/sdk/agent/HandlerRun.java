package dev.archon.sdk.agent;

import io.grpc.Context;
import java.util.concurrent.Callable;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.BiConsumer;

/** One call of a handler on a thread of its own. Interrupting it never hits later work of the same thread. */
final class HandlerRun {
  private Thread thread;
  private boolean isCancelled;
  private boolean isDone;

  /** Calls the handler within a gRPC context; {@code ended} gets its outcome, or its error, on that thread. */
  void start(Executor executor, String name, Context context, Callable<Reply> handler, BiConsumer<Reply, Throwable> ended) {
    try {
      executor.execute(() -> run(name, context, handler, ended));
    } catch (RejectedExecutionException stopped) {
      ended.accept(null, new InterruptedException("the agent has stopped"));
    }
  }

  private void run(String name, Context context, Callable<Reply> handler, BiConsumer<Reply, Throwable> ended) {
    String before = Thread.currentThread().getName();
    Reply reply = null;
    Throwable error = null;
    if (begin()) {
      Context previous = context.attach();
      try {
        Thread.currentThread().setName(name);
        reply = handler.call();
      } catch (Throwable raised) {
        error = raised;
      } finally {
        context.detach(previous);
        Thread.currentThread().setName(before);
        end();
      }
    } else {
      error = new InterruptedException("the task was cancelled before its handler began");
    }
    ended.accept(reply, error);
  }

  private synchronized boolean begin() {
    if (isCancelled) {
      return false;
    }
    thread = Thread.currentThread();
    return true;
  }

  private synchronized void end() {
    isDone = true;
    thread = null;
    Thread.interrupted(); // clears what came late
  }

  /** Interrupts the handler, if it goes on. */
  synchronized void interrupt() {
    isCancelled = true;
    if (thread != null && !isDone) {
      thread.interrupt();
    }
  }
}
