package dev.archon.sdk.agent;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Waiting on the thread of a handler. */
final class Waits {
  private Waits() {}

  /** Returns the outcome of a call. Throws its error; an interrupt cancels the call. */
  static <T> T await(CompletableFuture<T> call) throws InterruptedException {
    try {
      return call.get();
    } catch (InterruptedException interrupted) {
      call.cancel(true);
      throw interrupted;
    } catch (CancellationException cancelled) {
      throw ArchonException.of(Reasons.CANCELLED, "the task is over").cause(cancelled).build();
    } catch (ExecutionException failed) {
      throw Failures.of(failed.getCause());
    }
  }
}
