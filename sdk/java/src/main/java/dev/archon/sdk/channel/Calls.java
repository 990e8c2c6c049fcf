package dev.archon.sdk.channel;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Calls that throw typed errors. */
public final class Calls {
  private Calls() {}

  /** Makes a unary call with a deadline in seconds, and waits for the answer. An interrupt cancels the call. */
  public static <Q, R> R unary(Channel channel, MethodDescriptor<Q, R> method, Q request, double seconds)
      throws InterruptedException {
    return await(unaryAsync(channel, method, request, seconds));
  }

  /** Returns the outcome of a call; an interrupt cancels it. Throws the error of the server. */
  public static <R> R await(CompletableFuture<R> call) throws InterruptedException {
    try {
      return call.get();
    } catch (InterruptedException interrupted) {
      call.cancel(true);
      throw interrupted;
    } catch (CancellationException cancelled) {
      throw ArchonException.of(Reasons.CANCELLED, "the call was cancelled").build();
    } catch (ExecutionException failed) {
      throw Failures.of(failed.getCause());
    }
  }

  /** Makes a unary call. The future fails with an {@link ArchonException}; cancelling it cancels the call. */
  public static <Q, R> CompletableFuture<R> unaryAsync(
      Channel channel, MethodDescriptor<Q, R> method, Q request, double seconds) {
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter((long) (seconds * 1e9), TimeUnit.NANOSECONDS);
    ClientCall<Q, R> call = channel.newCall(method, options);
    CompletableFuture<R> outcome = new CompletableFuture<>();
    ClientCalls.asyncUnaryCall(
        call,
        request,
        new io.grpc.stub.StreamObserver<>() {
          private R answer;

          @Override
          public void onNext(R value) {
            answer = value;
          }

          @Override
          public void onError(Throwable error) {
            outcome.completeExceptionally(Failures.of(error));
          }

          @Override
          public void onCompleted() {
            outcome.complete(answer);
          }
        });
    outcome.whenComplete(
        (value, error) -> {
          if (outcome.isCancelled()) {
            call.cancel("the caller gave up", null);
          }
        });
    return outcome;
  }

  /** Opens a stream of the server; it has a deadline in seconds unless that is 0. */
  public static <Q, R> ServerStream<R> serverStream(
      Channel channel, MethodDescriptor<Q, R> method, Q request, double seconds) {
    CallOptions options =
        seconds > 0
            ? CallOptions.DEFAULT.withDeadlineAfter((long) (seconds * 1e9), TimeUnit.NANOSECONDS)
            : CallOptions.DEFAULT;
    ServerStream<R> stream = new ServerStream<>(channel.newCall(method, options));
    stream.start(request);
    return stream;
  }

  /** The messages of a server's stream: the next one is asked for when one has been taken, so that at most two wait. */
  public static final class ServerStream<R> implements AutoCloseable {
    private static final Object END = new Object();

    private final ClientCall<?, R> call;
    private final BlockingQueue<Object> received = new LinkedBlockingQueue<>();
    private Object ended;

    private ServerStream(ClientCall<?, R> call) {
      this.call = call;
    }

    @SuppressWarnings("unchecked")
    private <Q> void start(Q request) {
      ClientCall<Q, R> own = (ClientCall<Q, R>) call;
      own.start(
          new ClientCall.Listener<>() {
            @Override
            public void onMessage(R message) {
              received.add(message);
            }

            @Override
            public void onClose(Status status, Metadata trailers) {
              received.add(status.isOk() ? END : Failures.fromStatus(status, trailers));
            }
          },
          new Metadata());
      own.request(2);
      own.sendMessage(request);
      own.halfClose();
    }

    /** Returns the next message, null after the last one. Throws the error of the server. An interrupt ends the stream. */
    public R next() throws InterruptedException {
      return next(Long.MAX_VALUE / 1e9);
    }

    /** Returns the next message as {@link #next()}. Throws UNAVAILABLE if nothing comes within so many seconds. */
    @SuppressWarnings("unchecked")
    public R next(double seconds) throws InterruptedException {
      Object next = ended;
      if (next == null) {
        try {
          next = received.poll((long) (seconds * 1e9), TimeUnit.NANOSECONDS);
        } catch (InterruptedException interrupted) {
          close();
          throw interrupted;
        }
        if (next == null) {
          next = ArchonException.of(Reasons.UNAVAILABLE, "the server is silent").build();
          close();
        }
      }
      if (next == END) {
        ended = END;
        return null;
      }
      if (next instanceof ArchonException error) {
        ended = error;
        throw error;
      }
      call.request(1);
      return (R) next;
    }

    /** Ends the stream. Idempotent. */
    @Override
    public void close() {
      call.cancel("the stream is not needed any more", null);
    }
  }
}
