package dev.archon.sdk.testing;

import dev.archon.api.agent.v1.AdoptTask;
import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.AgentServiceGrpc;
import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.agent.v1.CancelTask;
import dev.archon.api.agent.v1.DescribeRequest;
import dev.archon.api.agent.v1.Open;
import dev.archon.api.agent.v1.OrchestratorFrame;
import dev.archon.api.agent.v1.Ready;
import dev.archon.api.agent.v1.SessionRequest;
import dev.archon.api.agent.v1.SessionResponse;
import dev.archon.api.agent.v1.TaskResult;
import dev.archon.api.common.v1.Part;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.channel.Channels;
import dev.archon.sdk.channel.MeshServer.RawBytes;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.internal.Frames;
import dev.archon.sdk.internal.Wire;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/**
 * The orchestrator's end of one stream to an agent, driven frame by frame: it sends only the frames that the test sends, no heartbeats, no
 * acks, no resends. Methods that wait throw AssertionError after five seconds, with the frames that came instead.
 */
public final class FrameOrchestrator implements AutoCloseable {
  private static final double TIMEOUT = 5.0;

  private final String orchestratorId;
  private final ManagedChannel channel;
  private final ClientCall<byte[], byte[]> call;
  private final List<AgentFrame> frames = new ArrayList<>();
  private final Set<Integer> taken = new HashSet<>();
  private final Map<String, Long> sent = new HashMap<>();
  private long epoch = 1;
  private boolean isOver;
  private ArchonException error;

  /** Connects to the agent at host:port. */
  public FrameOrchestrator(String address) {
    this(address, "orchestrator-1");
  }

  /** Connects as the orchestrator with this id. */
  public FrameOrchestrator(String address, String orchestratorId) {
    this.orchestratorId = orchestratorId;
    channel =
        NettyChannelBuilder.forTarget(address)
            .usePlaintext()
            .proxyDetector(target -> null)
            .maxInboundMessageSize(64 * 1024 * 1024)
            .build();
    call =
        channel.newCall(
            AgentServiceGrpc.getSessionMethod().toBuilder(RawBytes.MARSHALLER, RawBytes.MARSHALLER).build(),
            CallOptions.DEFAULT);
    call.start(
        new ClientCall.Listener<>() {
          @Override
          public void onMessage(byte[] message) {
            received(message);
          }

          @Override
          public void onClose(Status status, Metadata trailers) {
            ended(status.isOk() ? null : Failures.fromStatus(status, trailers));
          }
        },
        new Metadata());
    call.request(Integer.MAX_VALUE);
  }

  private synchronized void received(byte[] message) {
    try {
      frames.addAll(SessionResponse.parseFrom(message).getFramesList());
    } catch (com.google.protobuf.InvalidProtocolBufferException malformed) {
      throw new IllegalStateException(malformed);
    }
    notifyAll();
  }

  private synchronized void ended(ArchonException why) {
    isOver = true;
    error = why;
    notifyAll();
  }

  /** Sets the epoch of references that are made from now on. */
  public void epoch(long value) {
    epoch = value;
  }

  /** Returns all frames that came so far, in order. */
  public synchronized List<AgentFrame> frames() {
    return List.copyOf(frames);
  }

  // To the agent

  /** Sends Open with all features, and waits for Ready. */
  public Ready open() throws InterruptedException {
    return open(opening());
  }

  /** Sends an Open, and waits for Ready. */
  public Ready open(Open.Builder opening) throws InterruptedException {
    send(OrchestratorFrame.newBuilder().setOpen(opening));
    return receive(AgentFrame::hasReady).getReady();
  }

  /** Returns an Open for the agent at the address, with all features. */
  public Open.Builder opening() {
    return Open.newBuilder()
        .setOrchestratorId(orchestratorId)
        .setInstanceId(instanceId())
        .setProtocol(1)
        .addAllFeatures(Frames.FEATURES);
  }

  /** Returns the id of the instance at the address. */
  public String instanceId() {
    return AgentServiceGrpc.newBlockingStub(channel)
        .withDeadlineAfter(5, TimeUnit.SECONDS)
        .describe(DescribeRequest.getDefaultInstance())
        .getRegistration()
        .getInstanceId();
  }

  /** Returns a reference to an attempt of the run {@code run-1}. */
  public TaskRef ref(String taskId, int attempt) {
    return TaskRef.newBuilder().setTaskId(taskId).setRunId("run-1").setAttempt(attempt).setEpoch(epoch).build();
  }

  /** Returns a frame with its task and the next sequence of the attempt. */
  public OrchestratorFrame.Builder stamped(TaskRef ref, OrchestratorFrame.Builder frame) {
    long sequence = sent.merge(ref.getTaskId() + "/" + ref.getAttempt(), 1L, Long::sum);
    return frame.setTask(ref).setSequence(sequence);
  }

  /** Assigns a task with a text. */
  public void assign(TaskRef ref, String text) {
    assign(ref, AssignTask.newBuilder().addInput(Part.newBuilder().setText(text)));
  }

  /** Assigns a task. */
  public void assign(TaskRef ref, AssignTask.Builder task) {
    send(stamped(ref, OrchestratorFrame.newBuilder().setAssignTask(task)));
  }

  /** Cancels an attempt. */
  public void cancel(TaskRef ref, String reason) {
    send(stamped(ref, OrchestratorFrame.newBuilder().setCancelTask(CancelTask.newBuilder().setReason(reason))));
  }

  /** Adopts an attempt. */
  public void adopt(TaskRef ref, long lastApplied) {
    send(OrchestratorFrame.newBuilder().setTask(ref).setAdoptTask(AdoptTask.newBuilder().setLastApplied(lastApplied)));
  }

  /** Acknowledges the frames of an attempt up to a sequence. */
  public void ack(TaskRef ref, long sequence) {
    send(OrchestratorFrame.newBuilder().setTask(ref).setAck(sequence));
  }

  /** Sends frames in one message, unchanged. */
  public void send(OrchestratorFrame.Builder... some) {
    SessionRequest.Builder message = SessionRequest.newBuilder();
    for (OrchestratorFrame.Builder each : some) {
      message.addFrames(each);
    }
    sendRaw(message.build().toByteArray());
  }

  /** Sends any bytes as one message. */
  public void sendRaw(byte[] message) {
    call.sendMessage(message);
  }

  // From the agent

  /** Waits for a frame; each is returned once, others stay available. */
  public AgentFrame receive(Predicate<AgentFrame> wanted) throws InterruptedException {
    double end = System.nanoTime() / 1e9 + TIMEOUT;
    synchronized (this) {
      while (true) {
        for (int at = 0; at < frames.size(); at++) {
          if (!taken.contains(at) && wanted.test(frames.get(at))) {
            taken.add(at);
            return frames.get(at);
          }
        }
        long left = (long) ((end - System.nanoTime() / 1e9) * 1000);
        if (isOver || left <= 0) {
          throw new AssertionError("no such frame came; there were " + frames + (isOver ? ", and the stream ended: " + error : ""));
        }
        wait(left);
      }
    }
  }

  /** Waits for a frame about an attempt. */
  public AgentFrame receive(TaskRef ref, AgentFrame.FrameCase arm) throws InterruptedException {
    return receive(
        frame ->
            frame.getFrameCase() == arm
                && frame.getTask().getTaskId().equals(ref.getTaskId())
                && frame.getTask().getAttempt() == ref.getAttempt());
  }

  /** Waits for the result of the attempt, and acks it. */
  public TaskResult result(TaskRef ref) throws InterruptedException {
    AgentFrame frame = receive(ref, AgentFrame.FrameCase.RESULT);
    ack(frame.getTask(), frame.getSequence());
    return frame.getResult();
  }

  /** Waits for the agent to end the stream. Returns the error, or null if it ended with OK. */
  public synchronized ArchonException awaitEnd() throws InterruptedException {
    double end = System.nanoTime() / 1e9 + TIMEOUT;
    while (!isOver) {
      long left = (long) ((end - System.nanoTime() / 1e9) * 1000);
      if (left <= 0) {
        throw new AssertionError("the stream goes on; frames: " + frames);
      }
      wait(left);
    }
    return error;
  }

  /** Returns the text that the handler has streamed so far. */
  public synchronized String written(TaskRef ref) {
    StringBuilder text = new StringBuilder();
    frames.stream()
        .filter(frame -> frame.hasProgress() && frame.getTask().getTaskId().equals(ref.getTaskId()))
        .forEach(frame -> text.append(frame.getProgress().getText()));
    return text.toString();
  }

  /** Returns the text of a result. */
  public static String text(TaskResult result) {
    return Wire.textOf(result.getOutputList());
  }

  /** Breaks the stream off, as a broken connection does. Idempotent. */
  @Override
  public void close() {
    call.cancel("the test has ended", null);
    Channels.close(channel);
  }
}
