package dev.archon.sdk.channel;

import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.context.TraceContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Deadline;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** Server side: who calls is verified, and every RPC ends with a response or a typed error, whatever its handler does. */
public final class Guard implements ServerInterceptor {
  private final Authenticator authenticator;
  private final String mesh;
  private final Map<ServerCall<?, ?>, Principal> open = new ConcurrentHashMap<>();

  /** Makes the guard of a server; {@code mesh} is the id of its mesh, or empty. */
  public Guard(Authenticator authenticator, String mesh) {
    this.authenticator = authenticator;
    this.mesh = mesh;
  }

  @Override
  public <I, O> ServerCall.Listener<I> interceptCall(
      ServerCall<I, O> call, Metadata headers, ServerCallHandler<I, O> next) {
    Principal principal;
    try {
      principal = authenticator.caller(call, headers);
      checkMesh(headers.get(Outgoing.MESH));
    } catch (RuntimeException raised) {
      return refuse(call, Failures.of(raised));
    }
    Typed<I, O> typed = new Typed<>(call);
    if (principal != null && !call.getMethodDescriptor().getType().serverSendsOneMessage()) {
      open.put(typed, principal);
    }
    String parent = headers.get(Outgoing.TRACEPARENT);
    String state = headers.get(Outgoing.TRACESTATE);
    TraceContext trace = parent == null ? TraceContext.NONE : new TraceContext(parent, state == null ? "" : state);
    Deadline deadline = Context.current().getDeadline();
    CallContext served =
        new CallContext(
            deadline == null
                ? OptionalDouble::empty
                : () -> OptionalDouble.of(deadline.timeRemaining(TimeUnit.NANOSECONDS) / 1e9),
            trace, "", "", 0, "", principal);
    try {
      ServerCall.Listener<I> listener =
          Contexts.interceptCall(Context.current().withValue(CallContext.KEY, served), typed, headers, next);
      return new Watched<>(listener, typed);
    } catch (RuntimeException raised) {
      return refuse(call, Failures.of(raised));
    }
  }

  private static <I, O> ServerCall.Listener<I> refuse(ServerCall<I, O> call, ArchonException error) {
    Status status = Failures.toException(error).getStatus();
    call.close(status, Failures.trailers(error));
    return new ServerCall.Listener<>() {};
  }

  private void checkMesh(String given) {
    if (!mesh.isEmpty() && given != null && !given.isEmpty() && !given.equals(mesh)) {
      String text =
          "this is a member of the mesh " + mesh + ", and the caller belongs to the mesh " + given
              + ": the address belongs to another mesh now";
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, text).metadata("mesh", mesh).build();
    }
  }

  /** Ends the streams whose caller's credentials have expired or were revoked. Called once a second. */
  public void endRefused() {
    open.forEach(
        (call, principal) -> {
          try {
            authenticator.check(principal);
          } catch (ArchonException error) {
            open.remove(call);
            try {
              call.close(Failures.toException(error).getStatus(), Failures.trailers(error));
            } catch (IllegalStateException over) {
              System.getLogger("dev.archon.sdk").log(System.Logger.Level.TRACE, "the stream has ended already");
            }
          }
        });
  }

  /** A call whose end is typed: an exception without details becomes INTERNAL, and its text stays here. */
  private final class Typed<I, O> extends SimpleForwardingServerCall<I, O> {
    Typed(ServerCall<I, O> call) {
      super(call);
    }

    @Override
    public void close(Status status, Metadata trailers) {
      open.remove(this);
      if (status.getCause() != null && !(status.getCause() instanceof ArchonException)
          && status.getCode() == Status.Code.UNKNOWN) {
        ArchonException error = Failures.of(status.getCause());
        super.close(Failures.toException(error).getStatus(), Failures.trailers(error));
      } else if (status.getCode() == Status.Code.UNIMPLEMENTED && trailers.keys().isEmpty()) {
        String text = getMethodDescriptor().getFullMethodName() + " is in the contract, but not served here";
        ArchonException error = ArchonException.of(Reasons.NOT_SERVED, text).build();
        super.close(Failures.toException(error).getStatus(), Failures.trailers(error));
      } else {
        super.close(status, trailers);
      }
    }
  }

  private final class Watched<I> extends SimpleForwardingServerCallListener<I> {
    private final ServerCall<?, ?> call;

    Watched(ServerCall.Listener<I> listener, ServerCall<?, ?> call) {
      super(listener);
      this.call = call;
    }

    @Override
    public void onHalfClose() {
      try {
        super.onHalfClose();
      } catch (RuntimeException raised) {
        ArchonException error = Failures.of(raised);
        call.close(Failures.toException(error).getStatus(), Failures.trailers(error));
      }
    }

    @Override
    public void onCancel() {
      open.remove(call);
      super.onCancel();
    }

    @Override
    public void onComplete() {
      open.remove(call);
      super.onComplete();
    }
  }
}
