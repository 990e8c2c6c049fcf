package dev.archon.sdk.agent;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;

/**
 * A stream that an orchestrator has opened. The next message is asked for when the loop has served one, so that a fast orchestrator
 * cannot fill the memory.
 */
final class ServedStream implements FrameStream, StreamObserver<byte[]> {
  private final AgentCore agent;
  private final ServerCallStreamObserver<byte[]> out;
  private AgentSession session;
  private boolean isOver;

  ServedStream(AgentCore agent, ServerCallStreamObserver<byte[]> out) {
    this.agent = agent;
    this.out = out;
    agent.loop().execute(() -> session = agent.streamBegan(this));
  }

  @Override
  public void onNext(byte[] message) {
    agent.loop()
        .execute(
            () -> {
              session.message(message);
              if (!isOver) {
                out.request(1);
              }
            });
  }

  @Override
  public void onError(Throwable broken) {
    gone();
  }

  @Override
  public void onCompleted() {
    agent.loop().execute(() -> session.end(null));
  }

  void ready() {
    agent.loop()
        .execute(
            () -> {
              if (session != null) {
                session.ready();
              }
            });
  }

  void gone() {
    agent.loop()
        .execute(
            () -> {
              if (!isOver) {
                isOver = true;
                session.broken();
              }
            });
  }

  @Override
  public boolean isReady() {
    return out.isReady();
  }

  @Override
  public void write(byte[] message) {
    if (isOver) {
      return;
    }
    try {
      out.onNext(message);
    } catch (IllegalStateException closed) { // by the guard, whose caller's credentials are over
      isOver = true;
      session.broken();
    }
  }

  @Override
  public void end(ArchonException error) {
    if (isOver) {
      return;
    }
    isOver = true;
    try {
      if (error == null) {
        out.onCompleted();
      } else {
        out.onError(Failures.toException(error));
      }
    } catch (IllegalStateException closed) {
      System.getLogger("dev.archon.sdk").log(System.Logger.Level.TRACE, "the stream has ended already");
    }
  }

  @Override
  public void abort() {
    end(ArchonException.of(Status.Code.RESOURCE_EXHAUSTED, "the orchestrator does not read its stream").build());
  }

  @Override
  public void opened() {}

  @Override
  public boolean isAttached() {
    return false;
  }
}
