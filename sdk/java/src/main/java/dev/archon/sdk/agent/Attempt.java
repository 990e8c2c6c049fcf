package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.Adopted;
import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.agent.v1.CallRecord;
import dev.archon.api.agent.v1.PeerMessage;
import dev.archon.api.agent.v1.TaskResult;
import dev.archon.api.agent.v1.UpdateMemory;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.FrameChannel;
import dev.archon.sdk.internal.Frames;
import dev.archon.sdk.internal.Loop;
import dev.archon.sdk.internal.OutgoingFrame;
import io.grpc.Context;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.OptionalDouble;
import java.util.concurrent.CancellationException;
import java.util.concurrent.Future;

/**
 * One attempt at a task, from its assignment until its result is acked: its handler while it runs, then its result. It belongs to
 * the agent; the session is the stream on which its frames leave now, null while there is none. Used by the loop.
 */
final class Attempt {
  /** Seconds that a cancelled handler has to end; after them its attempt ends without it. */
  static final double CANCEL_GRACE = 1.0;

  private static final long MAX_UNACKED = 8L * 1024 * 1024;
  private static final double RECORDS_WITHIN = 0.5;
  private static final int MAX_OFFERED = 8;

  private final AgentCore core;
  private final AttemptTable table;
  private final FrameChannel channel;
  private final Deque<String> offeredTo = new ArrayDeque<>();
  private final HandlerRun run = new HandlerRun();
  private FrameSink session;
  private String owner;
  private double parkTtl;
  private long limit;
  private double finishedAt = Double.NaN;
  private PendingCalls calls;
  private Task task;
  private TaskSpan span;
  private Context.CancellableContext context;
  private ArchonException halted;
  private byte[] checkpoint;
  private Future<?> timer;
  private Future<?> recordsTimer;

  Attempt(AgentCore core, TaskRef ref, FrameSink session) {
    this.core = core;
    this.table = core.attempts();
    this.channel = new FrameChannel(ref);
    this.session = session;
    this.owner = session.orchestratorId();
    this.parkTtl = session.parkTtl();
    this.limit = session.peerLimit();
  }

  FrameChannel channel() {
    return channel;
  }

  TaskRef ref() {
    return channel.ref();
  }

  FrameSink session() {
    return session;
  }

  long limit() {
    return limit;
  }

  double parkTtl() {
    return parkTtl;
  }

  double finishedAt() {
    return finishedAt;
  }

  /** Returns whether there is no result yet. */
  boolean isWorking() {
    return Double.isNaN(finishedAt);
  }

  /** Returns whether the attempt only waits for its delegations. */
  boolean isWaiting() {
    return isWorking() && calls != null && calls.isWaiting();
  }

  PendingCalls calls() {
    if (calls == null) {
      calls = new PendingCalls(this, core.loop());
    }
    return calls;
  }

  /** Returns whether a frame of this orchestrator about the task may act on the attempt. */
  boolean heeds(String orchestratorId, TaskRef about) {
    if (!about.getRunId().equals(ref().getRunId()) || owner.isEmpty()) {
      return false;
    }
    return about.getEpoch() != ref().getEpoch() || orchestratorId.equals(owner) || offeredTo.contains(orchestratorId);
  }

  /** Returns the seconds left; empty if there is no limit or the clock stands still. */
  OptionalDouble remaining() {
    return task == null ? OptionalDouble.empty() : task.remaining();
  }

  /** Stops the time of the task while it waits for a person, as its orchestrator does. */
  void stopClock() {
    if (task != null) {
      task.stopClock();
    }
    if (halted == null) {
      Loop.cancel(timer);
      timer = null;
    }
  }

  /** The time of the task goes on. */
  void startClock() {
    if (task != null && halted == null && isWorking()) {
      task.startClock();
      startTimer();
    }
  }

  /** Takes the time of a new owner in place of the own countdown. */
  void setRemaining(double seconds) {
    if (task != null && halted == null) {
      task.setRemaining(seconds);
      startTimer();
    }
  }

  private void startTimer() {
    Loop.cancel(timer);
    task.remaining().ifPresent(left -> timer = core.loop().schedule(left, this::timeOut));
  }

  void start(ReplyHandler handler, AssignTask assigned) {
    task = new Task(channel.ref(), assigned, new AttemptLink(this, core.loop()), core.role(), core.isStateful());
    context = Context.ROOT.withValue(dev.archon.sdk.context.CallContext.KEY, task.callContext()).withCancellation();
    table.running.add(this);
    span = TaskSpan.start(core.openTelemetry(), task);
    Task current = task;
    TaskSpan spanNow = span;
    run.start(
        core.handlers(),
        "archon-task-" + ref().getTaskId(),
        context,
        () -> spanNow.within(() -> handler.handle(current)),
        (reply, error) -> core.loop().execute(() -> ended(reply, error)));
    startTimer();
  }

  /** Stops the handler. The result is CANCELED, or the handler's own if it is earlier. {@code over}: no attempt goes on. */
  void cancel(boolean over) {
    if (isWorking()) {
      halt(ArchonException.of(Reasons.CANCELLED, "the task was cancelled").build(), over);
    }
  }

  private void timeOut() {
    halt(ArchonException.of(Reasons.DEADLINE_EXCEEDED, "the task's time is over").build(), true);
  }

  private void halt(ArchonException cause, boolean over) {
    if (task == null || halted != null || !isWorking()) {
      return;
    }
    halted = cause;
    task.halt(over);
    context.cancel(cause);
    run.interrupt();
    Loop.cancel(timer);
    timer = core.loop().schedule(CANCEL_GRACE, () -> finish(null, cause));
  }

  private void ended(Reply reply, Throwable error) {
    table.handlerEnded(this);
    if (error == null) {
      finish(reply, null);
    } else if (halted != null) {
      finish(null, halted);
    } else if (error instanceof InterruptedException || error instanceof CancellationException) {
      finish(null, ArchonException.of(Reasons.INTERNAL, "the handler was cancelled by its own code").cause(error).build());
    } else {
      finish(null, error);
    }
  }

  /** Sends a sequenced frame on the current stream; without a stream it waits for one. */
  void send(byte[] content) {
    OutgoingFrame frame = channel.stamp(content, true);
    table.recount(this);
    if (session != null) {
      session.queue().put(frame, false);
    }
  }

  /** Sends progress, which may be dropped. */
  void report(byte[] content) {
    if (isWorking() && agrees("progress") && session != null) {
      session.queue().put(channel.stamp(content, false), true);
    }
  }

  /** Sends a checkpoint, and before it the calls that it rests on, as soon as there is room. */
  void save(byte[] content) {
    if (agrees("checkpoint")) {
      channel.checkSize(content, limit);
      if (isWorking()) {
        sendRecords();
        checkpoint = content;
        sendCheckpoint(false);
      }
    }
  }

  /** Sends an item, and before it the calls that it rests on. */
  void publish(byte[] content) {
    if (!agrees("publish")) {
      throw Rejections.unsupported("publish");
    }
    channel.checkSize(content, limit);
    if (channel.pendingBytes() > MAX_UNACKED) {
      String text =
          String.format(
              "%,d bytes of this task wait to be stored, at most %,d may; publish less often",
              channel.pendingBytes(), MAX_UNACKED);
      throw ArchonException.of(Reasons.RESOURCE_EXHAUSTED, text).build();
    }
    if (isWorking()) {
      flush();
      send(content);
    }
  }

  void updated(UpdateMemory update) {
    if (task != null) {
      task.update(update.getContextList());
    }
  }

  void received(PeerMessage message) {
    if (task != null) {
      task.messenger().receive(message);
    }
  }

  /** Sends the frames that must precede later ones: the checkpoint held back, and the recorded calls. */
  void flush() {
    sendCheckpoint(true);
    sendRecords();
  }

  private void sendCheckpoint(boolean room) {
    if (checkpoint != null && (room || channel.pendingBytes() < MAX_UNACKED)) {
      byte[] content = checkpoint;
      checkpoint = null;
      send(content);
    }
  }

  /** Sends the recorded calls soon, together with the next ones: most precede a result by then. */
  void recorded() {
    if (isWorking() && recordsTimer == null) {
      recordsTimer = core.loop().schedule(RECORDS_WITHIN, this::sendRecords);
    }
  }

  private void sendRecords() {
    Loop.cancel(recordsTimer);
    recordsTimer = null;
    if (task == null) {
      return;
    }
    for (CallRecord record : task.takeRecords()) {
      if (agrees("record")) {
        byte[] content = Frames.content(AgentFrame.RECORD_FIELD_NUMBER, record);
        send(fits(content) ? content : Frames.content(AgentFrame.RECORD_FIELD_NUMBER, CallRecords.withoutPayload(record)));
      }
    }
  }

  private boolean fits(byte[] content) {
    try {
      channel.checkSize(content, limit);
      return true;
    } catch (ArchonException tooLarge) {
      return false;
    }
  }

  /** Sends the handler's usage, for an owner that may not know it. */
  void sendUsage() {
    if (task != null) {
      task.sendUsage();
    }
  }

  /** Tells an orchestrator that the attempt is in progress: as the answer to AdoptTask, or unasked. */
  void sendAdopted(FrameSink to) {
    Adopted adopted = Adopted.newBuilder().setLastApplied(channel.received()).build();
    to.queue().put(AgentFrame.newBuilder().setTask(ref()).setAdopted(adopted).build());
  }

  /** Offers the attempt to any orchestrator, which may answer that it is over. */
  void offer(FrameSink to) {
    String id = to.orchestratorId();
    if (!id.equals(owner) && !offeredTo.contains(id)) {
      offeredTo.add(id);
      if (offeredTo.size() > MAX_OFFERED) {
        offeredTo.poll();
      }
    }
    if (isWorking()) {
      sendAdopted(to);
      return;
    }
    FrameSink bound = session;
    session = to;
    resend(0);
    session = bound;
  }

  /** Sends every unacked frame after the sequence again. */
  void resend(long after) {
    channel.acked(after);
    table.recount(this);
    if (session != null) {
      channel.unacked().forEach(frame -> session.queue().put(frame, false));
      sendCheckpoint(false);
    }
  }

  /** Forgets the frames up to a sequence; this may make room for a checkpoint. */
  void acked(long sequence) {
    channel.acked(sequence);
    table.recount(this);
    sendCheckpoint(false);
  }

  /** Returns whether frames of this kind may be sent. True without a stream: the frame waits for the next one. */
  boolean agrees(String feature) {
    return session == null || session.agreed().contains(feature);
  }

  /** Moves the attempt to another stream and owner. */
  void bind(FrameSink to, long epoch) {
    owner = to.orchestratorId();
    session = to;
    parkTtl = to.parkTtl();
    limit = to.peerLimit();
    channel.setEpoch(epoch);
  }

  /** Its stream is gone. */
  void leave() {
    session = null;
  }

  private void finish(Reply reply, Throwable error) {
    if (!isWorking() || task == null) {
      return;
    }
    Loop.cancel(timer);
    flush();
    Task ended = task;
    task = null;
    TaskResult result = Results.of(ended, reply, error, error != null && error == halted);
    span.end(result);
    byte[] content = Results.content(ended, result, this);
    finishedAt = Loop.now();
    if (table.running.contains(this)) {
      table.abandoned.add(this);
    }
    if (calls != null) {
      calls.close();
      calls = null;
    }
    context.cancel(null);
    send(content);
    table.changed();
  }
}
