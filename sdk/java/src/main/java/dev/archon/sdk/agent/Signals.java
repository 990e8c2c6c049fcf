package dev.archon.sdk.agent;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import sun.misc.Signal;

/**
 * SIGTERM and SIGINT, which end {@link AgentServer#run}. Where this Java has no signals, or leaves them to another program, a hook of
 * the shutdown drains instead.
 */
final class Signals {
  private static final long HOOK_SECONDS = 3_600;

  private final CompletableFuture<Object> received = new CompletableFuture<>();
  private final CountDownLatch drained = new CountDownLatch(1);

  private Signals() {}

  static Signals install() {
    Signals signals = new Signals();
    try {
      for (String name : new String[] {"TERM", "INT"}) {
        Signal.handle(new Signal(name), signal -> signals.received.complete(name));
      }
    } catch (IllegalArgumentException | LinkageError none) {
      Thread hook =
          new Thread(
              () -> {
                signals.received.complete("shutdown");
                try {
                  signals.drained.await(HOOK_SECONDS, TimeUnit.SECONDS);
                } catch (InterruptedException interrupted) {
                  Thread.currentThread().interrupt();
                }
              },
              "archon-shutdown");
      Runtime.getRuntime().addShutdownHook(hook);
    }
    return signals;
  }

  /** Completes when the process is to end. */
  CompletableFuture<Object> received() {
    return received;
  }

  /** The agent has drained. */
  void done() {
    drained.countDown();
  }
}
