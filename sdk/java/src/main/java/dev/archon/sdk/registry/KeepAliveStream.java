package dev.archon.sdk.registry;

import dev.archon.api.registry.v1.KeepAliveRequest;
import dev.archon.api.registry.v1.KeepAliveResponse;
import dev.archon.api.registry.v1.RegistryServiceGrpc.RegistryServiceStub;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Wire;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** One KeepAlive stream: each renewal is one message, and has one answer. Used by one thread. */
final class KeepAliveStream implements AutoCloseable {
  private final BlockingQueue<Object> answers = new ArrayBlockingQueue<>(16);
  private final StreamObserver<KeepAliveRequest> requests;
  private final String token;

  KeepAliveStream(RegistryServiceStub stub, String token) {
    this.token = token;
    requests =
        stub.keepAlive(
            new StreamObserver<>() {
              @Override
              public void onNext(KeepAliveResponse response) {
                answers.offer(response);
              }

              @Override
              public void onError(Throwable error) {
                answers.offer(Failures.of(error));
              }

              @Override
              public void onCompleted() {
                answers.offer(ArchonException.of(Reasons.UNAVAILABLE, "the registry ended the stream").build());
              }
            });
  }

  /** Renews the lease of an instance. Returns the seconds that it has left, 0 if it has expired. Throws if no answer comes. */
  double renew(String instanceId, double seconds) throws InterruptedException {
    requests.onNext(KeepAliveRequest.newBuilder().addInstanceIds(instanceId).addTokens(token).build());
    Object answer = answers.poll((long) (seconds * 1000), TimeUnit.MILLISECONDS);
    if (answer instanceof ArchonException error) {
      throw error;
    }
    if (!(answer instanceof KeepAliveResponse response)) {
      throw ArchonException.of(Reasons.DEADLINE_EXCEEDED, "no answer in time").build();
    }
    return response.getLeasesList().stream()
        .filter(lease -> lease.getInstanceId().equals(instanceId) && !lease.getExpired())
        .mapToDouble(lease -> Wire.seconds(lease.getTtl()))
        .findFirst()
        .orElse(0);
  }

  @Override
  public void close() {
    try {
      requests.onError(io.grpc.Status.CANCELLED.withDescription("the stream is not needed any more").asRuntimeException());
    } catch (IllegalStateException over) {
      answers.clear();
    }
  }
}
