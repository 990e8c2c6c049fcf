package dev.archon.sdk.agent;

import dev.archon.sdk.channel.MeshServer;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.TaskRejectedException;
import dev.archon.sdk.internal.Loop;
import dev.archon.sdk.registry.Registration;
import io.opentelemetry.api.OpenTelemetry;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;

/**
 * The sessions and attempts of an agent, and how its capacity is split among them. Its state is used by the loop alone; handlers run
 * on threads of their own, at most one for each slot and each attempt that waits for delegations.
 */
final class AgentCore {
  static final double SWEEP_INTERVAL = 5.0;
  static final double ACK_GRACE = 5.0;

  private static final int MAX_SESSIONS = 64;
  private static final int MAX_UNOPENED = 64;
  private static final double STOP_GRACE = 1.0;
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private record Waiter(BooleanSupplier condition, CompletableFuture<Boolean> done) {}

  private final Loop loop;
  private final ExecutorService handlers;
  private final AttemptTable attempts;
  private final ReplyHandler handler;
  private final Registration registration;
  private final OpenTelemetry telemetry;
  private final int maxWaiting;
  private final List<AgentSession> streams = new ArrayList<>();
  private final List<AgentSession> sessions = new ArrayList<>();
  private volatile boolean isReached;
  private final List<Waiter> waiters = new ArrayList<>();
  private boolean isDraining;

  AgentCore(Registration registration, ReplyHandler handler, int maxWaiting, OpenTelemetry telemetry) {
    this.registration = registration;
    this.handler = handler;
    this.maxWaiting = maxWaiting;
    this.telemetry = telemetry;
    this.loop = new Loop("archon-agent-" + registration.role());
    this.handlers = Executors.newCachedThreadPool(MeshServer.named("archon-handler"));
    this.attempts = new AttemptTable(registration.maxTasks(), this::changed);
  }

  Loop loop() {
    return loop;
  }

  ExecutorService handlers() {
    return handlers;
  }

  AttemptTable attempts() {
    return attempts;
  }

  ReplyHandler handler() {
    return handler;
  }

  OpenTelemetry openTelemetry() {
    return telemetry;
  }

  String instanceId() {
    return registration.instanceId();
  }

  String role() {
    return registration.role();
  }

  boolean isStateful() {
    return registration.stateful();
  }

  boolean isDraining() {
    return isDraining;
  }

  /** Returns the handler of tasks that ask for a bid, which has the estimates of the profile. */
  ReplyHandler bids() {
    return task -> {
      var profile = registration.profile();
      if (profile == null
          || (profile.expectedCostMicroUsd() == 0 && profile.expectedLatencyMs() == 0 && profile.expectedQuality() == 0)) {
        throw new TaskRejectedException(role() + " does not bid for this step");
      }
      String bid =
          String.format(
              java.util.Locale.ROOT,
              "{\"cost_micro_usd\": %d, \"seconds\": %s, \"quality\": %s}",
              profile.expectedCostMicroUsd(), profile.expectedLatencyMs() / 1000.0, profile.expectedQuality());
      return Answer.json(bid).unpublished();
    };
  }

  void start() {
    loop.schedule(SWEEP_INTERVAL, this::sweep);
  }

  // Streams

  /** Adds a stream; it becomes a session with its Open frame. */
  AgentSession streamBegan(FrameStream stream) {
    List<AgentSession> unopened =
        streams.stream().filter(each -> each.orchestratorId().isEmpty() && !each.queue().closed()).toList();
    if (unopened.size() >= MAX_UNOPENED) {
      unopened.get(0).end(Rejections.exhausted("too many streams wait for Open", 1.0));
    }
    AgentSession session = new AgentSession(this, stream);
    streams.add(session);
    return session;
  }

  /** Returns whether an orchestrator has opened a session. For any thread. */
  boolean isReached() {
    return isReached;
  }

  /** Ends an older stream of the same orchestrator and splits the capacity anew. Returns the session's share. */
  int sessionOpened(AgentSession session) {
    String id = session.orchestratorId();
    long others = sessions.stream().filter(other -> !other.orchestratorId().equals(id)).count();
    if (others >= MAX_SESSIONS) {
      throw Rejections.exhausted("this instance has " + others + " sessions, which is its limit", 1.0);
    }
    for (Iterator<AgentSession> all = sessions.iterator(); all.hasNext(); ) {
      AgentSession older = all.next();
      if (older.orchestratorId().equals(id)) {
        all.remove();
        older.end(Rejections.replaced(id));
      }
    }
    sessions.add(session);
    isReached = true;
    int share = share();
    session.setAnnounced(share); // by Ready
    session.window().set(share);
    credit();
    return share;
  }

  /** Removes a stream. Its attempts continue and wait to be adopted on another one. */
  void streamEnded(AgentSession session) {
    streams.remove(session);
    sessions.remove(session);
    for (Attempt attempt : attempts) {
      if (attempt.session() == session) {
        attempt.leave();
      }
    }
    attempts.changed();
  }

  List<AgentSession> sessions() {
    return sessions;
  }

  private void credit() {
    int share = share();
    for (AgentSession session : List.copyOf(sessions)) {
      if (session.announced() != share) {
        session.window().set(share);
        session.credit(share, waitingShare());
      }
    }
  }

  int share() {
    int room = attempts.capacity - attempts.abandoned.size();
    if (isDraining || room <= 0 || attempts.isParkedFull()) {
      return 0;
    }
    return Math.max(1, room / Math.max(1, sessions.size()));
  }

  int waitingShare() {
    return Math.max(1, maxWaiting / Math.max(1, sessions.size()));
  }

  /**
   * Returns the error that refuses another task, or null if there is a slot. {@code superseded} is the attempt it replaces,
   * {@code session} the one that it comes from: besides others, a session gets its own share only.
   */
  ArchonException refusal(Attempt superseded, AgentSession session) {
    if (isDraining) {
      return Rejections.draining();
    }
    if (attempts.isParkedFull()) {
      return Rejections.noCapacity(0.2);
    }
    if (session != null && sessions.size() > 1) {
      List<Attempt> own =
          attempts.running.stream()
              .filter(each -> each.session() == session && each.isWorking() && each != superseded)
              .toList();
      long waiting = Math.min(waitingShare(), own.stream().filter(Attempt::isWaiting).count());
      if (own.size() - waiting >= session.window().allowed()) {
        return Rejections.noCapacity(0.2);
      }
    }
    int slots = Math.max(attempts.capacity, sessions.size());
    if (attempts.running.size() < slots) {
      return null;
    }
    List<Attempt> running = attempts.running.stream().filter(each -> each != superseded).toList();
    long busy = running.size() - Math.min(maxWaiting, running.stream().filter(Attempt::isWaiting).count());
    return busy >= slots ? Rejections.noCapacity(0.2) : null;
  }

  // From time to time

  private void sweep() {
    loop.schedule(SWEEP_INTERVAL, this::sweep);
    attempts.expire();
    List.copyOf(streams).forEach(AgentSession::check);
    credit();
    if (!sessions.isEmpty()) {
      offer(sessions.get(ThreadLocalRandom.current().nextInt(sessions.size())));
    }
  }

  /**
   * Offers parked results to any orchestrator, which can judge them by the journal: their owner may have released the run. Reports
   * attempts in progress that have no stream or wait for an answer: they may be over.
   */
  private void offer(AgentSession session) {
    double late = Loop.now() - SWEEP_INTERVAL;
    for (Attempt attempt : attempts) {
      if (!attempt.isWorking() && (attempt.session() == null || attempt.finishedAt() < late)) {
        attempt.offer(session);
      } else if (attempt.isWorking() && (attempt.session() == null || attempt.isWaiting())) {
        attempt.offer(attempt.session() == null ? session : attempt.session());
      }
    }
  }

  private void changed() {
    credit();
    for (Iterator<Waiter> all = waiters.iterator(); all.hasNext(); ) {
      Waiter waiter = all.next();
      if (waiter.condition.getAsBoolean()) {
        all.remove();
        waiter.done.complete(true);
      }
    }
  }

  // The end, by the thread that stops the agent

  /** Takes no new tasks from now on. */
  void drain() {
    join(
        loop.call(
            () -> {
              isDraining = true;
              List.copyOf(sessions).forEach(AgentSession::drain);
              credit();
              return true;
            }));
  }

  /** Waits until no attempt is in progress, at most so many seconds. Returns whether that came in time. */
  boolean awaitIdle(double seconds) throws InterruptedException {
    return await(() -> attempts.working() == 0, seconds);
  }

  /** Waits until all results are acked, or no session is left that could ack them. */
  boolean awaitAcks(double seconds) throws InterruptedException {
    return await(() -> sessions.isEmpty() || attempts.size() <= attempts.working(), seconds);
  }

  private boolean await(BooleanSupplier condition, double seconds) throws InterruptedException {
    CompletableFuture<Boolean> done = new CompletableFuture<>();
    loop.execute(
        () -> {
          if (condition.getAsBoolean()) {
            done.complete(true);
          } else {
            waiters.add(new Waiter(condition, done));
          }
        });
    try {
      return done.get((long) (seconds * 1000), TimeUnit.MILLISECONDS);
    } catch (TimeoutException | ExecutionException late) {
      return false;
    }
  }

  /** Cancels what is in progress, and ends all streams. Returns how many handlers ignore that. */
  int stop() throws InterruptedException {
    join(
        loop.call(
            () -> {
              attempts.stop();
              return true;
            }));
    await(attempts.running::isEmpty, STOP_GRACE);
    Integer left =
        join(
            loop.call(
                () -> {
                  List.copyOf(streams).forEach(stream -> stream.end(null));
                  return attempts.running.size();
                }));
    int behind = left == null ? 0 : left;
    if (behind > 0) {
      LOG.log(System.Logger.Level.ERROR, "left {0} running handlers behind that cannot be cancelled", behind);
    }
    return behind;
  }

  /** Waits until all streams have ended, at most so many seconds. */
  void awaitStreams(double seconds) throws InterruptedException {
    await(streams::isEmpty, seconds);
  }

  /** Ends the threads. */
  void close() {
    handlers.shutdownNow();
    loop.close();
  }

  private static <T> T join(CompletableFuture<T> work) {
    try {
      return work.get(5, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return null;
    } catch (ExecutionException | TimeoutException failed) {
      LOG.log(System.Logger.Level.ERROR, "the agent cannot be stopped in order", failed);
      return null;
    }
  }
}
