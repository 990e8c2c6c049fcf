package dev.archon.sdk.agent;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.Credit;
import dev.archon.api.agent.v1.Drain;
import dev.archon.api.agent.v1.Heartbeat;
import dev.archon.api.agent.v1.Open;
import dev.archon.api.agent.v1.OrchestratorFrame;
import dev.archon.api.agent.v1.Ready;
import dev.archon.api.agent.v1.SessionRequest;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.api.registry.v1.Registration;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.FrameQueue;
import dev.archon.sdk.internal.Frames;
import dev.archon.sdk.internal.Loop;
import dev.archon.sdk.internal.OutgoingFrame;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;

/** The agent's end of one orchestrator's stream, as long as the stream lives. Used by the loop, which never waits for a handler. */
final class AgentSession implements FrameSink, FrameQueue.Writer {
  static final int PROTOCOL = 1;

  private static final int LEAST_MESSAGE_BYTES = 128 * 1024;
  private static final double OPEN_TIMEOUT = 10.0;
  private static final double UNREAD_TIMEOUT = 5.0;
  private static final int MAX_ERRORS = 10_000;
  private static final int MAX_LOGGED = 200;
  private static final double DEFAULT_PARK_TTL = 25 * 3600.0;
  private static final double MAX_PARK_TTL = 7 * 86_400.0;
  private static final double DEFAULT_SILENCE_LIMIT = 2.0;
  private static final double MAX_SILENCE_LIMIT = 60.0;
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private final AgentCore agent;
  private final AttemptTable attempts;
  private final FrameStream stream;
  private final FrameQueue queue;
  private final TaskFrames taskFrames;
  private final ShareWindow window = new ShareWindow();
  private final double began = Loop.now();
  private String orchestratorId = "";
  private ArchonException error;
  private long peerLimit = Wire.MAX_CHECKED_BYTES;
  private double parkTtl = DEFAULT_PARK_TTL;
  private double silenceLimit = DEFAULT_SILENCE_LIMIT;
  private Set<String> agreed = Set.of();
  private int announced = -1;
  private boolean hasComplained;
  private boolean isReadingOver;
  private double closedAt = Double.NaN;
  private double heard = began;

  AgentSession(AgentCore agent, FrameStream stream) {
    this.agent = agent;
    this.attempts = agent.attempts();
    this.stream = stream;
    this.queue = new FrameQueue(agent.loop(), this);
    this.taskFrames = new TaskFrames(agent, this);
  }

  @Override
  public FrameQueue queue() {
    return queue;
  }

  @Override
  public String orchestratorId() {
    return orchestratorId;
  }

  @Override
  public Set<String> agreed() {
    return agreed;
  }

  @Override
  public long peerLimit() {
    return peerLimit;
  }

  @Override
  public double parkTtl() {
    return parkTtl;
  }

  ShareWindow window() {
    return window;
  }

  int announced() {
    return announced;
  }

  /** Notes the credit that the orchestrator knows; -1 if it may have lowered its window since. */
  void setAnnounced(int credit) {
    announced = credit;
  }

  boolean isOpen() {
    return !orchestratorId.isEmpty() && !queue.closed();
  }

  // FrameQueue.Writer

  @Override
  public boolean isReady() {
    return stream.isReady();
  }

  @Override
  public void write(byte[] message) {
    stream.write(message);
  }

  @Override
  public void end() {
    isReadingOver = true;
    stream.end(queue.overflowed() ? Rejections.exhausted("the orchestrator does not read its stream", 1.0) : error);
    agent.streamEnded(this);
  }

  /** The transport can take more. */
  void ready() {
    queue.wake();
  }

  /** The stream is gone; its attempts go on. */
  void broken() {
    isReadingOver = true;
    queue.abandon();
    agent.streamEnded(this);
  }

  /** Ends the stream after the frames that wait, with an error or, if that is null, with OK. */
  void end(ArchonException reason) {
    error = error == null ? reason : error;
    queue.close();
  }

  /** Announces the agent on a stream that it has attached. */
  void attach(Registration registration) {
    Ready ready =
        Ready.newBuilder()
            .setInstanceId(agent.instanceId())
            .setRole(agent.role())
            .setRegistration(registration)
            .build();
    queue.put(AgentFrame.newBuilder().setReady(ready).build());
  }

  /** Serves a message, unless the stream has been ended. */
  void message(byte[] message) {
    if (isReadingOver || queue.closed()) {
      return;
    }
    heard = Loop.now();
    try {
      serve(ByteString.copyFrom(message));
    } catch (Rejections.StreamRefused refused) {
      end(refused);
    } catch (ArchonException refused) {
      if (!refused.is(Reasons.WRONG_INSTANCE)) {
        throw refused;
      }
      end(refused);
    }
  }

  private void serve(ByteString message) {
    if (message.size() > 2 * Frames.MAX_FRAMES && hasTooManyFrames(message)) {
      throw Rejections.exhausted(String.format("a message has at most %,d frames", Frames.MAX_FRAMES), 0);
    }
    SessionRequest request;
    try {
      request = SessionRequest.parseFrom(message);
    } catch (InvalidProtocolBufferException malformed) {
      serveOneByOne(message);
      return;
    }
    for (OrchestratorFrame frame : request.getFramesList()) {
      decoded(frame);
    }
  }

  private static boolean hasTooManyFrames(ByteString message) {
    try {
      return Frames.split(message, Frames.MAX_FRAMES).size() > Frames.MAX_FRAMES;
    } catch (InvalidProtocolBufferException malformed) {
      return false;
    }
  }

  /** Decodes frame by frame a message that holds a broken frame, so that its neighbours are served. */
  private void serveOneByOne(ByteString message) {
    try {
      for (ByteString raw : Frames.split(message, Frames.MAX_FRAMES)) {
        OrchestratorFrame frame;
        try {
          frame = OrchestratorFrame.parseFrom(raw);
        } catch (InvalidProtocolBufferException malformed) {
          refuse(Frames.taskOf(raw), malformed("the frame is not valid protobuf, or a string in it is not UTF-8"));
          continue;
        }
        decoded(frame);
      }
    } catch (InvalidProtocolBufferException malformed) {
      refuse(null, malformed("the message cannot be split into frames"));
    }
  }

  private static ArchonException malformed(String text) {
    return ArchonException.of(Reasons.MALFORMED_MESSAGE, text).build();
  }

  private void decoded(OrchestratorFrame frame) {
    if (queue.closed()) {
      return;
    }
    try {
      if (frame.getFrameCase() == OrchestratorFrame.FrameCase.OPEN) {
        open(frame.getOpen());
      } else if (orchestratorId.isEmpty()) {
        throw ArchonException.of(Reasons.SESSION_NOT_OPEN, "the first frame of a session is Open").build();
      } else if (frame.hasTask()) {
        taskFrames.serve(frame);
      } else {
        sessionFrame(frame);
      }
    } catch (Rejections.StreamRefused refused) {
      throw refused;
    } catch (RuntimeException raised) {
      ArchonException refused = Failures.of(raised);
      if (refused.is(Reasons.WRONG_INSTANCE)) {
        throw refused;
      }
      refuse(frame.hasTask() ? frame.getTask() : null, refused);
    }
  }

  private void open(Open request) {
    if (!orchestratorId.isEmpty()) {
      throw ArchonException.of(Reasons.SESSION_ALREADY_OPEN, "this session is already open").build();
    }
    if (!request.getInstanceId().equals(agent.instanceId())) {
      String text = "this is " + agent.instanceId() + ", not " + Texts.head(request.getInstanceId(), Rejections.MAX_ID);
      throw ArchonException.of(Reasons.WRONG_INSTANCE, text).metadata("instance_id", agent.instanceId()).build();
    }
    if (request.getProtocol() < PROTOCOL) {
      String text = "this agent speaks protocol " + PROTOCOL + ", the orchestrator " + request.getProtocol();
      throw new Rejections.StreamRefused(ArchonException.of(Reasons.PROTOCOL_MISMATCH, text));
    }
    if (!Rejections.isId(request.getOrchestratorId())) {
      String rule = "must name the orchestrator's process in 1 to " + Rejections.MAX_ID + " characters";
      throw ArchonException.invalid("open.orchestrator_id", rule);
    }
    if (request.getMaxMessageBytes() != 0) {
      if (request.getMaxMessageBytes() < LEAST_MESSAGE_BYTES) {
        throw ArchonException.invalid("open.max_message_bytes", String.format("at least %,d", LEAST_MESSAGE_BYTES));
      }
      peerLimit = Math.min(Wire.MAX_CHECKED_BYTES, request.getMaxMessageBytes());
      queue.setBatchBytes((int) Math.min(Frames.SOFT_BATCH_BYTES, peerLimit / 2));
    }
    if (request.hasSilenceLimit()) {
      silenceLimit = Math.min(MAX_SILENCE_LIMIT, Math.max(0, Wire.seconds(request.getSilenceLimit())));
    }
    if (request.hasParkTtl()) {
      parkTtl = Math.min(MAX_PARK_TTL, Math.max(0, Wire.seconds(request.getParkTtl())));
    }
    orchestratorId = request.getOrchestratorId();
    TreeSet<String> common = new TreeSet<>(Frames.FEATURES);
    common.retainAll(request.getFeaturesList());
    agreed = Set.copyOf(common);
    announced = agent.sessionOpened(this);
    Ready ready =
        Ready.newBuilder()
            .setInstanceId(agent.instanceId())
            .setProtocol(PROTOCOL)
            .addAllFeatures(common)
            .setMaxTasks(announced)
            .setMaxWaiting(agent.waitingShare())
            .setMaxMessageBytes(Wire.MAX_CHECKED_BYTES)
            .setRole(agent.role())
            .build();
    queue.put(AgentFrame.newBuilder().setReady(ready).build());
    if (agent.isDraining()) {
      drain();
    }
    stream.opened();
  }

  private void sessionFrame(OrchestratorFrame frame) {
    switch (frame.getFrameCase()) {
      case HEARTBEAT -> {
        Heartbeat echo = Heartbeat.newBuilder().setEcho(frame.getHeartbeat().getCounter()).build();
        queue.put(Frames.encode(AgentFrame.newBuilder().setHeartbeat(echo).build()), true);
        flushAcks();
      }
      case FAILURE -> complain("the orchestrator refused a frame", frame.getFailure().getMessage());
      case DRAIN ->
          LOG.log(System.Logger.Level.INFO, "orchestrator {0} is draining: {1}", orchestratorId, shown(frame.getDrain().getReason()));
      default -> throw Rejections.unknown(armOf(frame));
    }
  }

  static String armOf(OrchestratorFrame frame) {
    return frame.getFrameCase() == OrchestratorFrame.FrameCase.FRAME_NOT_SET
        ? ""
        : frame.getFrameCase().name().toLowerCase(Locale.ROOT);
  }

  /** Sends the acks that no other frame has carried since the last heartbeat. */
  private void flushAcks() {
    for (Attempt attempt : attempts) {
      if (attempt.session() == this && attempt.channel().ackOwed()) {
        OutgoingFrame ack = attempt.channel().stamp(new byte[0], false);
        queue.put(ack, false);
      }
    }
  }

  /** Logs an orchestrator's refusal, once per stream: it must not fill the log. */
  void complain(String what, String why) {
    System.Logger.Level level = hasComplained ? System.Logger.Level.DEBUG : System.Logger.Level.WARNING;
    hasComplained = true;
    LOG.log(level, "{0}: {1}", what, shown(why));
  }

  private static String shown(String text) {
    return "'" + Texts.head(text, MAX_LOGGED).replaceAll("\\p{Cntrl}", " ") + "'";
  }

  private void refuse(TaskRef ref, ArchonException refusal) {
    AgentFrame.Builder frame = AgentFrame.newBuilder().setFailure(Failures.toFailure(refusal));
    if (ref != null
        && Texts.characters(ref.getTaskId()) <= Rejections.MAX_ID
        && Texts.characters(ref.getRunId()) <= Rejections.MAX_ID) {
      frame.setTask(ref);
    }
    putError(frame.build());
  }

  /** Queues an error. Throws StreamRefused if too many wait. */
  void putError(AgentFrame frame) {
    if (queue.size() >= MAX_ERRORS) {
      throw Rejections.exhausted("the orchestrator does not read its stream", 1.0);
    }
    queue.put(frame);
  }

  /** Announces how many tasks may be in flight on this session, if the number has changed. */
  void credit(int maxTasks, int maxWaiting) {
    if (maxTasks != announced && agreed.contains("credit")) {
      announced = maxTasks;
      Credit credit = Credit.newBuilder().setMaxTasks(maxTasks).setMaxWaiting(maxWaiting).build();
      queue.put(AgentFrame.newBuilder().setCredit(credit).build());
    }
  }

  /** Announces that no new tasks are taken. */
  void drain() {
    if (agreed.contains("drain")) {
      queue.put(AgentFrame.newBuilder().setDrain(Drain.newBuilder().setReason("the agent is stopping")).build());
    }
  }

  /** Ends a stream that is silent; breaks one off whose last frames are not read. Called from time to time. */
  void check() {
    double now = Loop.now();
    if (queue.closed()) {
      closedAt = Double.isNaN(closedAt) ? now : closedAt;
      if (now - closedAt >= UNREAD_TIMEOUT) {
        stream.abort();
        broken();
      }
    } else if (isSilent(now)) {
      end(ArchonException.of(Reasons.UNAVAILABLE, "no frames came from the orchestrator").build());
    }
  }

  private boolean isSilent(double now) {
    if (orchestratorId.isEmpty()) {
      return !stream.isAttached() && now - began > OPEN_TIMEOUT;
    }
    return now - heard > Math.max(10.0, 5 * silenceLimit);
  }
}
