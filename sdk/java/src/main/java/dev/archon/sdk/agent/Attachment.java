package dev.archon.sdk.agent;

import dev.archon.sdk.channel.Channels;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.channel.Peer;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Loop;
import dev.archon.sdk.registry.Backoff;
import dev.archon.sdk.registry.Convert;
import dev.archon.sdk.registry.Registration;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Keeps an agent that cannot be dialled attached to an orchestrator: it opens the streams of its sessions itself. One stream is always
 * spare; when it becomes a session, the next one is opened on the same connection. A thread of its own decides, the loop serves.
 */
final class Attachment {
  private static final double MIN_PAUSE = 0.1;
  private static final double MAX_PAUSE = 5.0;
  private static final double ACCEPT_TIMEOUT = 20.0;
  private static final double OPEN_TIMEOUT = 15.0;
  private static final double END_TIMEOUT = 3.0;
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private final AgentCore agent;
  private final Registration registration;
  private final String target;
  private final Environment environment;
  private final Thread thread;
  private final String token;
  private final List<AttachedStream> streams = new ArrayList<>(); // of the loop
  private final CompletableFuture<Boolean> attached = new CompletableFuture<>();
  private String lastError = "";
  private double pause = MIN_PAUSE;
  private int news;
  private volatile boolean isEnding;

  Attachment(AgentCore agent, Registration registration, String target, Environment environment) {
    this.agent = agent;
    this.registration = registration;
    this.target = target;
    this.environment = environment;
    byte[] secret = new byte[24];
    new SecureRandom().nextBytes(secret);
    token = Base64.getUrlEncoder().withoutPadding().encodeToString(secret);
    thread = new Thread(this::keep, "archon-attach-" + registration.instanceId());
    thread.setDaemon(true);
  }

  /**
   * Attaches in the background; waits until an orchestrator has registered the agent, at most so many seconds. Throws the errors with
   * which it refuses the agent, such as PERMISSION_DENIED.
   */
  void start(double seconds) throws InterruptedException {
    thread.start();
    try {
      attached.get((long) (seconds * 1000), TimeUnit.MILLISECONDS);
    } catch (TimeoutException late) {
      LOG.log(System.Logger.Level.WARNING, "not attached to {0} yet, trying again: {1}", target, lastError);
    } catch (ExecutionException refused) {
      throw Failures.of(refused.getCause());
    }
  }

  private void keep() {
    try {
      while (!isEnding) {
        ManagedChannel channel = null;
        try {
          channel = Channels.connect(target, Peer.ORCHESTRATOR, environment, null, null);
          keepSpare(channel);
        } catch (ArchonException error) {
          failed(error);
        } finally {
          if (!isEnding) {
            drop();
          }
          if (channel != null && !isEnding) {
            Channels.close(channel);
          } else if (channel != null) {
            closeLater(channel);
          }
        }
        waitAgain();
      }
    } catch (InterruptedException ended) {
      LOG.log(System.Logger.Level.DEBUG, "the attachment has ended");
    }
  }

  /** Leaves the streams their time to end. */
  private void closeLater(ManagedChannel channel) {
    channel.shutdown();
    try {
      channel.awaitTermination((long) (END_TIMEOUT * 1000), TimeUnit.MILLISECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    Channels.close(channel);
  }

  /** Keeps one stream spare, until all streams on the channel are lost. Throws the reason. */
  private void keepSpare(ManagedChannel channel) throws InterruptedException {
    while (!isEnding) {
      double began = Loop.now();
      AttachedStream spare = ask(() -> begin(channel));
      boolean isAccepted = false;
      while (!isEnding) {
        boolean wasAccepted = isAccepted;
        int seen = newsNow();
        boolean[] state = ask(() -> new boolean[] {spare.isAccepted(), spare.isOpen(), spare.isOver(), inSession(spare)});
        isAccepted = state[0] && !state[2];
        if (isAccepted && !wasAccepted) {
          lastError = "";
          attached.complete(true);
        }
        if (state[1] || state[2]) {
          break;
        }
        double limit = began + (isAccepted ? OPEN_TIMEOUT : ACCEPT_TIMEOUT) - Loop.now();
        if (limit <= 0) {
          if (!state[3]) {
            String text = isAccepted ? "no session was opened within 15 s" : "the orchestrator did not answer in time";
            throw ArchonException.of(Reasons.UNAVAILABLE, text).build();
          }
          limit = OPEN_TIMEOUT;
        }
        awaitNews(seen, limit);
      }
      if (isEnding) {
        return;
      }
      if (ask(spare::isOpen)) {
        pause = MIN_PAUSE;
        continue;
      }
      ArchonException why = ask(spare::error);
      ArchonException error =
          why != null ? why : ArchonException.of(Reasons.UNAVAILABLE, "the orchestrator has ended the stream").build();
      if (!ask(() -> inSession(spare))) {
        throw error;
      }
      failed(error);
      waitAgain();
    }
  }

  private AttachedStream begin(ManagedChannel channel) {
    streams.removeIf(AttachedStream::isOver);
    Metadata metadata = new Metadata();
    metadata.put(Metadata.Key.of("archon-attach-token", Metadata.ASCII_STRING_MARSHALLER), token);
    AttachedStream stream =
        new AttachedStream(agent, channel, metadata, Convert.toProto(registration.withAddress("")), this::changed);
    streams.add(stream);
    return stream;
  }

  private boolean inSession(AttachedStream but) {
    return streams.stream().anyMatch(stream -> stream != but && stream.isOpen() && !stream.isOver());
  }

  private void failed(ArchonException error) {
    if (!error.toString().equals(lastError)) {
      System.Logger.Level level = Backoff.isTransient(error) ? System.Logger.Level.INFO : System.Logger.Level.WARNING;
      LOG.log(level, "{0} is not attached to {1}, trying again: {2}", registration.instanceId(), target, error);
    }
    lastError = error.toString();
    if (!Backoff.isTransient(error)) {
      attached.completeExceptionally(error);
    }
  }

  private void waitAgain() throws InterruptedException {
    if (!isEnding) {
      Thread.sleep(Math.max(1, (long) (pause * ThreadLocalRandom.current().nextDouble(500, 1000))));
      pause = Math.min(MAX_PAUSE, pause * 2);
    }
  }

  /** Breaks all streams off; their attempts wait to be adopted. */
  private void drop() throws InterruptedException {
    ask(
        () -> {
          List.copyOf(streams).forEach(AttachedStream::abort);
          streams.clear();
          return true;
        });
  }

  private synchronized void changed() {
    news++;
    notifyAll();
  }

  private synchronized int newsNow() {
    return news;
  }

  private synchronized void awaitNews(int seen, double seconds) throws InterruptedException {
    double end = Loop.now() + seconds;
    while (news == seen && !isEnding) {
      long left = (long) ((end - Loop.now()) * 1000);
      if (left <= 0) {
        return;
      }
      wait(left);
    }
  }

  private <T> T ask(java.util.concurrent.Callable<T> question) throws InterruptedException {
    try {
      return agent.loop().call(question).get();
    } catch (ExecutionException failed) {
      throw Failures.of(failed.getCause());
    }
  }

  /** Half-closes all streams, by which the orchestrator deregisters the agent, and waits up to 3 s for their end. Idempotent. */
  void close() throws InterruptedException {
    isEnding = true;
    changed();
    ask(
        () -> {
          List.copyOf(streams).forEach(stream -> stream.session().end(null));
          return true;
        });
    double end = Loop.now() + END_TIMEOUT;
    while (Loop.now() < end && !ask(() -> streams.stream().allMatch(AttachedStream::isOver))) {
      int seen = newsNow();
      synchronized (this) {
        if (news == seen) {
          wait(100);
        }
      }
    }
    drop();
    thread.join(500);
    thread.interrupt();
    thread.join(2_000);
  }
}
