package dev.archon.sdk.agent;

import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.channel.Channels;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.channel.Peer;
import dev.archon.sdk.errors.ArchonException;
import io.grpc.ManagedChannel;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthGrpc;
import java.util.function.BooleanSupplier;

/** Notices that no orchestrator can dial an agent: it is behind NAT, or in another cluster. */
final class Reachability {
  /** Milliseconds that an orchestrator has to dial an agent that has registered; it does so at once if it can. */
  private static final long UNREACHED_AFTER = 10_000;

  private static final double PROBE_TIMEOUT = 2.0;
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private final String target;
  private final Environment environment;
  private final BooleanSupplier isRegistered;
  private final BooleanSupplier isReached;
  private final Thread thread;

  /** Calls {@code attach} on a thread of its own once it is known that no orchestrator can dial the agent. */
  Reachability(
      String target, Environment environment, BooleanSupplier isRegistered, BooleanSupplier isReached, Step attach) {
    this.target = target;
    this.environment = environment;
    this.isRegistered = isRegistered;
    this.isReached = isReached;
    thread =
        new Thread(
            () -> {
              try {
                if (isUnreached()) {
                  attach.run();
                }
              } catch (InterruptedException ended) {
                LOG.log(System.Logger.Level.DEBUG, "the agent stops before it is known whether it can be dialled");
              } catch (ArchonException refused) {
                LOG.log(System.Logger.Level.ERROR, "the orchestrator at {0} refuses the agent: {1}", target, refused);
              }
            },
            "archon-reachability");
    thread.setDaemon(true);
  }

  /** A step that may be interrupted. */
  @FunctionalInterface
  interface Step {
    void run() throws InterruptedException;
  }

  void start() {
    thread.start();
  }

  /**
   * Returns true once the agent is registered, the orchestrator at the target has been answering for UNREACHED_AFTER, and none has
   * reached the agent; false as soon as one has.
   */
  private boolean isUnreached() throws InterruptedException {
    for (boolean hasAnswered = false; ; ) {
      Thread.sleep(UNREACHED_AFTER);
      if (isReached.getAsBoolean()) {
        return false;
      }
      boolean isThere = isRegistered.getAsBoolean() && answers();
      if (hasAnswered && isThere) {
        return !isReached.getAsBoolean();
      }
      hasAnswered = isThere;
    }
  }

  /** Returns whether there is an orchestrator at the target: any answer to a call of it tells that. */
  private boolean answers() throws InterruptedException {
    ManagedChannel channel = Channels.connect(target, Peer.ORCHESTRATOR, environment, null, null);
    try {
      Calls.unary(channel, HealthGrpc.getCheckMethod(), HealthCheckRequest.getDefaultInstance(), PROBE_TIMEOUT);
      return true;
    } catch (ArchonException error) {
      return switch (error.code()) {
        case UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED -> false;
        default -> true;
      };
    } finally {
      Channels.close(channel);
    }
  }

  /** Ends the wait, and waits for its end. Idempotent. */
  void close() throws InterruptedException {
    thread.interrupt();
    thread.join(2_000);
  }
}
