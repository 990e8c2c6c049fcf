package dev.archon.sdk.channel;

import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.context.TraceContext;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Deadline;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** Calls carry the token, the rest of the time of the call being served, its trace, and the id of the mesh. */
final class Outgoing implements ClientInterceptor {
  static final Metadata.Key<String> AUTHORIZATION = key("authorization");
  static final Metadata.Key<String> MESH = key("archon-mesh-id");
  static final Metadata.Key<String> TRACEPARENT = key("traceparent");
  static final Metadata.Key<String> TRACESTATE = key("tracestate");

  private static final double DEFAULT_TIMEOUT = 30.0;
  private static final Set<String> WITH_MESH_ID = Set.of("RegisterInstance", "Watch", "Session", "Attach");

  private final Credentials credentials;
  private final String audience;
  private final String mesh;

  Outgoing(Credentials credentials, String audience, String mesh) {
    this.credentials = credentials;
    this.audience = audience;
    this.mesh = mesh;
  }

  static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  @Override
  public <I, O> ClientCall<I, O> interceptCall(MethodDescriptor<I, O> method, CallOptions options, Channel next) {
    TraceContext trace = TraceContext.current();
    return new SimpleForwardingClientCall<>(next.newCall(method, limited(method, options))) {
      @Override
      public void start(Listener<O> listener, Metadata headers) {
        String token = credentials.token(audience);
        if (!token.isEmpty()) {
          headers.put(AUTHORIZATION, "Bearer " + token);
        }
        if (!mesh.isEmpty() && WITH_MESH_ID.contains(method.getBareMethodName())) {
          headers.put(MESH, mesh);
        }
        if (!trace.isEmpty() && !headers.containsKey(TRACEPARENT)) {
          headers.put(TRACEPARENT, trace.traceparent());
          if (!trace.tracestate().isEmpty()) {
            headers.put(TRACESTATE, trace.tracestate());
          }
        }
        super.start(listener, headers);
      }
    };
  }

  /** Shortens the deadline to the time that the call being served has left. A unary call has one always. */
  private static CallOptions limited(MethodDescriptor<?, ?> method, CallOptions options) {
    CallOptions bounded = options;
    if (options.getDeadline() == null && method.getType() == MethodDescriptor.MethodType.UNARY) {
      bounded = options.withDeadlineAfter((long) (DEFAULT_TIMEOUT * 1e9), TimeUnit.NANOSECONDS);
    }
    OptionalDouble left = CallContext.current().remaining();
    if (left.isEmpty()) {
      return bounded;
    }
    Deadline end = Deadline.after((long) (left.getAsDouble() * 1e9), TimeUnit.NANOSECONDS);
    return bounded.getDeadline() == null || end.isBefore(bounded.getDeadline()) ? bounded.withDeadline(end) : bounded;
  }
}
