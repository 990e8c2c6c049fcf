package dev.archon.sdk.tools;

import dev.archon.api.tool.v1.ExecuteToolRequest;
import dev.archon.api.tool.v1.ExecuteToolResponse;
import dev.archon.api.tool.v1.LeaseToolRequest;
import dev.archon.api.tool.v1.RevokeLeaseRequest;
import dev.archon.api.tool.v1.ToolServiceGrpc;
import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.context.TraceContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.TaskRef;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Comparator;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;

/** A shared tool that is leased as it is needed, from the best instance that has it. For any thread; close it to end the lease. */
public final class LeasedTool implements AutoCloseable {
  private static final double LEASE_SECONDS = 600.0;
  private static final double RENEW_EARLY = 5.0;
  private static final double LEASE_CALL_SECONDS = 5.0;
  private static final double REVOKE_SECONDS = 2.0;
  private static final double ANSWER_SECONDS = 2.0;
  private static final int MAX_TRIES = 4;
  private static final int MAX_PROGRESS = 1_000;
  private static final int MAX_ARGUMENTS_BYTES = 1024 * 1024;

  private record Held(FoundTool found, String leaseId, double ends) {}

  private final ToolClient mesh;
  private final String name;
  private final TaskRef task;
  private String role;
  private Held held;
  private boolean isReleased;

  LeasedTool(ToolClient mesh, String name, String role, TaskRef task) {
    this.mesh = mesh;
    this.name = name;
    this.role = role;
    this.task = task;
  }

  /** Executes a call within 30 s, without a key. */
  public SharedToolResult execute(String argumentsJson) throws InterruptedException {
    return execute(argumentsJson, 30.0, "", text -> {});
  }

  /**
   * Executes a call within so many seconds, with all that it takes to lease the tool. A failure of the tool itself is a result. With an
   * idempotency key, a repeated call of the same task with the same key has the same result, as long as its owner runs.
   *
   * <p>Another instance gets the call only if the one before has certainly not begun it, or if the tool is idempotent. Throws NOT_FOUND if
   * no instance shares the tool, INVALID_ARGUMENT, REQUEST_ID_REUSED, RESOURCE_EXHAUSTED with a delay, LEASE_EXPIRED if the owner has
   * revoked the lease, UNAVAILABLE and DEADLINE_EXCEEDED.
   */
  public SharedToolResult execute(String argumentsJson, double seconds, String idempotencyKey, Consumer<String> progress)
      throws InterruptedException {
    if (!(seconds > 0)) {
      throw ArchonException.invalid("timeout", "the timeout of a call must be above 0 s");
    }
    if (!SharedToolResult.isJson(argumentsJson) || Texts.bytes(argumentsJson) > MAX_ARGUMENTS_BYTES) {
      throw ArchonException.invalid("arguments_json", "must be one JSON object of at most 1 MiB");
    }
    double deadline = now() + seconds;
    Set<String> avoided = new HashSet<>();
    for (int number = 1; ; number++) {
      Held current = lease(deadline, avoided);
      double left = deadline - now();
      if (left <= 0) {
        throw late();
      }
      try {
        return call(current, argumentsJson, left, idempotencyKey, progress);
      } catch (ArchonException error) {
        boolean wasNotBegun = wasNotBegun(error);
        boolean isLost = error.is(Reasons.LEASE_EXPIRED) && wasNotBegun;
        boolean isGone =
            switch (error.code()) {
              case UNAVAILABLE, NOT_FOUND, UNKNOWN -> !error.is(Reasons.LEASE_EXPIRED);
              default -> false;
            };
        if (isLost || isGone) {
          drop(current);
        }
        if (isGone) {
          avoided.add(current.found.instanceId());
        }
        boolean mayRepeat = isLost || (isGone && (wasNotBegun || current.found.tool().idempotent()));
        if (!mayRepeat || number == MAX_TRIES) {
          throw error;
        }
      }
    }
  }

  private SharedToolResult call(Held current, String arguments, double seconds, String key, Consumer<String> progress)
      throws InterruptedException {
    ExecuteToolRequest.Builder request =
        ExecuteToolRequest.newBuilder()
            .setLeaseId(current.leaseId)
            .setArgumentsJson(Texts.clean(arguments))
            .setTimeout(Wire.duration(seconds))
            .setIdempotencyKey(Texts.clean(key));
    TraceContext trace = TraceContext.current();
    if (!trace.isEmpty()) {
      request.getTraceBuilder().setTraceparent(trace.traceparent()).setTracestate(trace.tracestate());
    }
    int told = 0;
    try (Calls.ServerStream<ExecuteToolResponse> stream =
        Calls.serverStream(
            mesh.peer(current.found), ToolServiceGrpc.getExecuteToolMethod(), request.build(), seconds + ANSWER_SECONDS)) {
      for (ExecuteToolResponse event = stream.next(); event != null; event = stream.next()) {
        if (event.hasResult()) {
          return SharedToolResult.of(event.getResult());
        }
        if (!event.getProgress().isEmpty() && told++ < MAX_PROGRESS) {
          progress.accept(Texts.head(event.getProgress(), MAX_PROGRESS));
        }
      }
    }
    String text = "the owner of the tool ended the call without a result";
    throw ArchonException.of(Reasons.UNKNOWN, text).kind("tool.crash").build();
  }

  /** Returns whether a call that ended with this error was certainly not begun by its owner (contract rule 14). */
  private static boolean wasNotBegun(ArchonException error) {
    String begun = error.metadata().getOrDefault(ToolOwner.BEGUN, "");
    if (begun.equals("true")) {
      return false;
    }
    return switch (error.code()) {
      case NOT_FOUND, RESOURCE_EXHAUSTED, INVALID_ARGUMENT -> true;
      case UNAVAILABLE -> begun.equals("false") || isNotConnected(error.getCause());
      default -> false;
    };
  }

  /** Returns whether no connection took the call: a connection that broke has the same status, and another cause. */
  private static boolean isNotConnected(Throwable cause) {
    return cause instanceof ConnectException || cause instanceof NoRouteToHostException || cause instanceof UnknownHostException;
  }

  private synchronized Held lease(double deadline, Set<String> avoided) throws InterruptedException {
    if (isReleased) {
      String text = "the lease of tool " + name + " was released";
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, text).build();
    }
    if (held != null && held.ends - now() > RENEW_EARLY) {
      return held;
    }
    Held before = held;
    held = null;
    ArchonException error = null;
    for (FoundTool found : owners(avoided, before)) {
      double left = deadline - now();
      if (left <= 0) {
        throw late();
      }
      LeaseToolRequest.Builder request =
          LeaseToolRequest.newBuilder()
              .setToolName(name)
              .setDuration(Wire.duration(LEASE_SECONDS))
              .setInstanceId(mesh.instanceId());
      if (task != null) {
        request.setTask(task.proto());
      }
      try {
        double seconds = Math.min(left, LEASE_CALL_SECONDS);
        String id =
            Calls.unary(mesh.peer(found), ToolServiceGrpc.getLeaseToolMethod(), request.build(), seconds)
                .getLease()
                .getLeaseId();
        role = role.isEmpty() ? found.role() : role; // another role's tool of this name may do another thing
        held = new Held(found, id, now() + LEASE_SECONDS);
        return held;
      } catch (ArchonException refused) {
        error = refused;
        avoided.add(found.instanceId());
      }
    }
    throw error != null ? error : missing(avoided);
  }

  /** Returns the instances to ask for a lease: of the first role that has the tool, unless a role is named. */
  private List<FoundTool> owners(Set<String> avoided, Held before) throws InterruptedException {
    List<FoundTool> found = mesh.find(name, role, !avoided.isEmpty());
    if (found.isEmpty() && avoided.isEmpty()) {
      found = mesh.find(name, role, true);
    }
    List<FoundTool> live =
        found.stream().filter(each -> !avoided.contains(each.instanceId()) && !each.address().isEmpty()).toList();
    if (live.isEmpty()) {
      return live;
    }
    String first = live.get(0).role();
    Comparator<FoundTool> order = Comparator.comparing(each -> before == null || !each.instanceId().equals(before.found.instanceId()));
    if (task != null && !live.get(0).tool().idempotent()) {
      order = order.thenComparing(this::place); // each attempt asks the same instance first, which knows what was done
    }
    return live.stream().filter(each -> each.role().equals(first)).sorted(order).toList();
  }

  private String place(FoundTool found) {
    try {
      byte[] text = (task.taskId() + ":" + found.instanceId()).getBytes(StandardCharsets.UTF_8);
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text));
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private synchronized void drop(Held lost) {
    held = held == lost ? null : held;
  }

  private ArchonException missing(Set<String> avoided) {
    String whose = role.isEmpty() ? "" : " of role " + role;
    return avoided.isEmpty()
        ? ArchonException.of(Reasons.NOT_FOUND, "no live instance" + whose + " shares a tool '" + name + "'")
            .metadata("tool", name)
            .build()
        : ArchonException.of(Reasons.UNAVAILABLE, "no other instance" + whose + " shares tool '" + name + "'").build();
  }

  private ArchonException late() {
    return ArchonException.of(Reasons.DEADLINE_EXCEEDED, "no answer of tool " + name + " in time").kind("tool.timeout").build();
  }

  private static double now() {
    return System.nanoTime() / 1e9;
  }

  /** Ends the lease, within two seconds; if the owner is not reachable, it expires. Idempotent. */
  @Override
  public void close() {
    Held last;
    synchronized (this) {
      isReleased = true;
      last = held;
      held = null;
    }
    if (last == null) {
      return;
    }
    try {
      RevokeLeaseRequest request = RevokeLeaseRequest.newBuilder().setLeaseId(last.leaseId).build();
      Calls.unary(mesh.peer(last.found), ToolServiceGrpc.getRevokeLeaseMethod(), request, REVOKE_SECONDS);
    } catch (ArchonException unreachable) {
      System.getLogger("archon.shared_tools")
          .log(System.Logger.Level.DEBUG, "the lease of tool {0} was not released: {1}", name, unreachable);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
