package dev.archon.sdk.context;

import dev.archon.sdk.channel.Principal;
import io.grpc.Context;
import java.util.OptionalDouble;
import java.util.function.Supplier;

/**
 * The call that the current thread serves, which travels with every hop: its time, its trace, and the attempt that an agent
 * works on. It is a value of the gRPC {@link Context}, so that {@link Context#wrap} carries it to other threads.
 */
public record CallContext(
    Supplier<OptionalDouble> time,
    TraceContext trace,
    String runId,
    String taskId,
    int attempt,
    String role,
    Principal principal) {
  /** The key in the gRPC context. */
  public static final Context.Key<CallContext> KEY = Context.key("archon-call");

  private static final CallContext NONE =
      new CallContext(OptionalDouble::empty, TraceContext.NONE, "", "", 0, "", null);

  /** Returns the call being served, or an empty context outside of a call. */
  public static CallContext current() {
    CallContext call = KEY.get();
    return call == null ? NONE : call;
  }

  /** Returns the seconds left, never below 0; empty if there is no deadline. */
  public OptionalDouble remaining() {
    OptionalDouble left = time.get();
    return left.isPresent() ? OptionalDouble.of(Math.max(0, left.getAsDouble())) : left;
  }

  /** Returns this context with another trace. */
  public CallContext withTrace(TraceContext value) {
    return new CallContext(time, value, runId, taskId, attempt, role, principal);
  }

  /** Returns a context with the time of a call that has this deadline (monotonic seconds of {@code System.nanoTime}). */
  public static Supplier<OptionalDouble> until(double monotonicSeconds) {
    return () -> OptionalDouble.of(monotonicSeconds - System.nanoTime() / 1e9);
  }
}
