package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.AttachRequest;
import dev.archon.api.agent.v1.AttachServiceGrpc;
import dev.archon.sdk.channel.MeshServer.RawBytes;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;

/** A stream that the agent has opened to an orchestrator. It is spare until Open comes. Used by the loop. */
final class AttachedStream extends ClientCall.Listener<byte[]> implements FrameStream {
  private static final MethodDescriptor<byte[], byte[]> METHOD =
      AttachServiceGrpc.getAttachMethod().toBuilder(RawBytes.MARSHALLER, RawBytes.MARSHALLER).build();

  private final AgentCore agent;
  private final Runnable changed;
  private final ClientCall<byte[], byte[]> call;
  private final AgentSession session;
  private boolean isAccepted;
  private boolean isOpen;
  private boolean isOver;
  private boolean isHalfClosed;
  private ArchonException error;

  /** Opens the stream; {@code changed} is called when it is accepted, opened or over. */
  AttachedStream(
      AgentCore agent, Channel channel, Metadata metadata, dev.archon.api.registry.v1.Registration registration, Runnable changed) {
    this.agent = agent;
    this.changed = changed;
    // In the order of the connection: on pooled threads, messages of the next stream could overtake the last ones of this
    call = channel.newCall(METHOD, CallOptions.DEFAULT.withExecutor(Runnable::run));
    session = agent.streamBegan(this);
    call.start(this, metadata);
    call.request(1);
    session.attach(registration);
  }

  boolean isAccepted() {
    return isAccepted;
  }

  boolean isOpen() {
    return isOpen;
  }

  boolean isOver() {
    return isOver;
  }

  /** Returns why the stream is over; null if it ended with OK. */
  ArchonException error() {
    return error;
  }

  AgentSession session() {
    return session;
  }

  // From gRPC, on its threads

  @Override
  public void onHeaders(Metadata headers) {
    agent.loop()
        .execute(
            () -> {
              isAccepted = true;
              changed.run();
            });
  }

  @Override
  public void onMessage(byte[] message) {
    agent.loop()
        .execute(
            () -> {
              session.message(message);
              if (!isOver) {
                call.request(1);
              }
            });
  }

  @Override
  public void onReady() {
    agent.loop().execute(session::ready);
  }

  @Override
  public void onClose(Status status, Metadata trailers) {
    agent.loop()
        .execute(
            () -> {
              if (!isOver) {
                isOver = true;
                error = error != null ? error : status.isOk() ? null : Failures.fromStatus(status, trailers);
                session.broken();
                changed.run();
              }
            });
  }

  // FrameStream

  @Override
  public boolean isReady() {
    return call.isReady();
  }

  @Override
  public void write(byte[] message) {
    if (!isOver && !isHalfClosed) {
      call.sendMessage(message); // an AttachRequest has the form of a SessionResponse
    }
  }

  @Override
  public void end(ArchonException reason) {
    if (isOver || isHalfClosed) {
      return;
    }
    if (reason != null) { // a client cannot end a stream with an error
      AgentFrame failure = AgentFrame.newBuilder().setFailure(Failures.toFailure(reason)).build();
      call.sendMessage(AttachRequest.newBuilder().addFrames(failure).build().toByteArray());
      error = reason;
    }
    isHalfClosed = true;
    call.halfClose();
  }

  @Override
  public void abort() {
    if (!isOver) {
      isOver = true;
      error = error != null ? error : ArchonException.of(Reasons.UNAVAILABLE, "the stream was given up").build();
      call.cancel("the agent gives the stream up", null);
      session.broken();
      changed.run();
    }
  }

  @Override
  public void opened() {
    isOpen = true;
    changed.run();
  }

  @Override
  public boolean isAttached() {
    return true;
  }
}
