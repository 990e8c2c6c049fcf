package dev.archon.sdk.agent;

import com.google.protobuf.InvalidProtocolBufferException;
import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.agent.v1.RunTaskResponse;
import dev.archon.api.agent.v1.SessionResponse;
import dev.archon.api.common.v1.Part;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.FrameQueue;
import dev.archon.sdk.internal.Wire;
import io.grpc.stub.ServerCallStreamObserver;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.UUID;

/** RunTask: one task in one call, without an orchestrator. It takes a slot like any other and ends with its call. */
final class RunTaskCall implements FrameSink, FrameQueue.Writer {
  private static final double ANSWER_MARGIN = 0.1;

  private final AgentCore agent;
  private final ServerCallStreamObserver<RunTaskResponse> out;
  private final FrameQueue queue;
  private final OptionalDouble left = CallContext.current().remaining();
  private Attempt attempt;
  private boolean isOver;

  RunTaskCall(AgentCore agent, ServerCallStreamObserver<RunTaskResponse> out) {
    this.agent = agent;
    this.out = out;
    this.queue = new FrameQueue(agent.loop(), this);
  }

  /** Begins the task. Throws INVALID_ARGUMENT without input, NO_CAPACITY without a free slot, DRAINING. */
  boolean begin(AssignTask task) {
    if (task.getInputList().stream().allMatch(part -> part.getContentCase() == Part.ContentCase.CONTENT_NOT_SET)) {
      String text = "the task has no input";
      throw ArchonException.of(Reasons.INVALID_ARGUMENT, text).violation("task.input", "at least one part").build();
    }
    ArchonException refusal = agent.refusal(null, null);
    if (refusal != null) {
      throw refusal;
    }
    String id = "direct-" + UUID.randomUUID().toString().replace("-", "");
    attempt = new Attempt(agent, TaskRef.newBuilder().setTaskId(id).setRunId(id).setAttempt(1).build(), this);
    agent.attempts().add(attempt);
    attempt.start(task.hasBidRequest() ? agent.bids() : agent.handler(), withinTheCall(task));
    return true;
  }

  private AssignTask withinTheCall(AssignTask task) {
    if (left.isEmpty()) {
      return task;
    }
    double most = Math.max(0, left.getAsDouble() - ANSWER_MARGIN);
    boolean isShorter = task.hasRemaining() && Wire.seconds(task.getRemaining()) <= most;
    return isShorter ? task : task.toBuilder().setRemaining(Wire.duration(most)).build();
  }

  void ready() {
    agent.loop().execute(queue::wake);
  }

  void gone() {
    agent.loop().execute(this::over);
  }

  private void over() {
    if (!isOver) {
      isOver = true;
      queue.abandon();
      if (attempt != null) {
        attempt.cancel(true);
        agent.attempts().drop(attempt);
      }
    }
  }

  @Override
  public FrameQueue queue() {
    return queue;
  }

  @Override
  public String orchestratorId() {
    return "";
  }

  @Override
  public Set<String> agreed() {
    return Set.of("progress");
  }

  @Override
  public long peerLimit() {
    return Wire.MAX_CHECKED_BYTES;
  }

  @Override
  public double parkTtl() {
    return 0;
  }

  @Override
  public boolean isReady() {
    return out.isReady();
  }

  @Override
  public void write(byte[] message) {
    try {
      for (AgentFrame frame : SessionResponse.parseFrom(message).getFramesList()) {
        if (isOver) {
          return;
        }
        if (frame.hasProgress()) {
          out.onNext(RunTaskResponse.newBuilder().setProgress(frame.getProgress()).build());
        } else if (frame.hasResult()) {
          out.onNext(RunTaskResponse.newBuilder().setResult(frame.getResult()).build());
          out.onCompleted();
          over();
        }
      }
    } catch (InvalidProtocolBufferException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  @Override
  public void end() {
    if (!isOver) {
      String text = "the agent stopped before the task was done";
      out.onError(Failures.toException(ArchonException.of(Reasons.UNAVAILABLE, text).build()));
      over();
    }
  }
}
