package dev.archon.sdk.tools;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.archon.api.tool.v1.ToolResult;
import dev.archon.sdk.channel.MeshServer;
import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.types.TaskRef;
import io.grpc.Context;
import io.opentelemetry.api.OpenTelemetry;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;

/** The tools that an agent shares, with their leases, their executions and their figures. For any thread. */
public final class ToolOwner {
  static final String BEGUN = "begun";
  private static final double CALL_SECONDS = 30.0;
  private static final int MAX_CALLS = 256;
  private static final int MAX_CALLS_OF_LEASE = 16;
  private static final int MAX_KEY = 256;
  private static final double ANSWER_MARGIN = 0.1;
  private static final System.Logger LOG = System.getLogger("archon.shared_tools");

  private static final class Shared {
    final SharedTool tool;
    final ArgumentCheck check;
    final ToolFigures figures = new ToolFigures();
    final CallWindow window;
    int calls;

    Shared(SharedTool tool) {
      this.tool = tool;
      check = ArgumentCheck.of(tool.tool());
      window = tool.totalPerMinute() > 0 ? new CallWindow(tool.totalPerMinute()) : null;
    }

    Tool advertised() {
      return tool.tool().withShare(figures.share(tool.maxCallsPerMinute()));
    }
  }

  private final Map<String, Shared> tools = new TreeMap<>();
  private final LeaseTable leases = new LeaseTable();
  private final KeptResults kept = new KeptResults();
  private final Set<Execution> executions = new HashSet<>();
  private final ExecutorService pool = Executors.newCachedThreadPool(MeshServer.named("archon-tool"));
  private final ScheduledExecutorService timers = Executors.newSingleThreadScheduledExecutor(MeshServer.named("archon-tool-timer"));
  private final ToolService service;
  private boolean isDraining;
  private int changes;

  /** Shares tools. Throws ALREADY_EXISTS if two have the same name. */
  public ToolOwner(List<SharedTool> shared, OpenTelemetry telemetry) {
    service = new ToolService(this, telemetry);
    shared.forEach(this::share);
  }

  /** Returns the gRPC service. */
  public ToolService service() {
    return service;
  }

  synchronized void share(SharedTool tool) {
    if (tools.containsKey(tool.tool().name())) {
      String text = "a tool '" + tool.tool().name() + "' is shared already";
      throw ArchonException.of(Reasons.ALREADY_EXISTS, text).build();
    }
    tools.put(tool.tool().name(), new Shared(tool));
    changed();
  }

  private void changed() {
    changes++;
    notifyAll();
  }

  int revoke(String toolName) {
    List<Lease> ended;
    List<Execution> running;
    synchronized (this) {
      tools.remove(toolName);
      changed();
      ended = leases.all().stream().filter(lease -> lease.toolName.equals(toolName)).toList();
      ended.forEach(lease -> leases.remove(lease.id));
      running = executions.stream().filter(each -> each.lease.toolName.equals(toolName)).toList();
    }
    ended.forEach(lease -> log("revoke", lease, "owner"));
    running.forEach(each -> each.end(revoked()));
    return ended.size();
  }

  boolean revokeLease(String leaseId, boolean byOwner) {
    Lease lease;
    List<Execution> running;
    synchronized (this) {
      lease = leases.remove(leaseId);
      running = executions.stream().filter(each -> each.lease == lease).toList();
    }
    if (lease != null) {
      log("revoke", lease, byOwner ? "owner" : "holder");
      running.forEach(each -> each.end(revoked()));
    }
    return lease != null;
  }

  private static ArchonException revoked() {
    return ArchonException.of(Reasons.LEASE_EXPIRED, "the lease of the tool was revoked").metadata(BEGUN, "true").build();
  }

  synchronized List<SharedTools.LeaseView> leases() {
    double now = System.nanoTime() / 1e9;
    return leases.all().stream()
        .map(
            lease ->
                new SharedTools.LeaseView(
                    lease.id, lease.toolName, lease.expiresAt - now, lease.task, lease.instanceId, lease.calls))
        .toList();
  }

  /** Returns the tools with their terms and current figures, sorted by name. */
  public synchronized List<Tool> advertised() {
    return tools.values().stream().map(Shared::advertised).toList();
  }

  /** Returns whether two lists of shared tools differ so much that callers would choose differently. */
  public static boolean differNotably(List<Tool> known, List<Tool> current) {
    if (!known.stream().map(Tool::name).toList().equals(current.stream().map(Tool::name).toList())) {
      return true;
    }
    for (int at = 0; at < known.size(); at++) {
      if (ToolFigures.differNotably(known.get(at).share(), current.get(at).share())) {
        return true;
      }
    }
    return false;
  }

  /** Returns how often tools were shared or taken back. */
  public synchronized int changes() {
    return changes;
  }

  /** Waits until a tool is shared or taken back, at most so many seconds. Returns the new number of changes. */
  public synchronized int awaitChange(int seen, double seconds) throws InterruptedException {
    double end = System.nanoTime() / 1e9 + seconds;
    while (changes == seen && System.nanoTime() / 1e9 < end) {
      wait(Math.max(1, (long) ((end - System.nanoTime() / 1e9) * 1000)));
    }
    return changes;
  }

  // The service

  synchronized Lease lease(String toolName, double seconds, TaskRef task, String instanceId) {
    checkOpen();
    Shared shared = find(toolName);
    if (!(seconds > 0)) {
      throw ArchonException.invalid("duration", "must be above 0 s");
    }
    double granted = Math.min(seconds, LeaseTable.MAX_LEASE_SECONDS);
    Lease lease = leases.grant(toolName, granted, shared.tool.maxCallsPerMinute(), task, instanceId);
    log("lease", lease, instanceId.isEmpty() ? "an unnamed instance" : instanceId);
    return lease;
  }

  /**
   * Begins a call for a caller, or lets it wait for the same one in progress. Returns the execution, or null if the result of an
   * earlier call was passed to the listener. Throws LEASE_EXPIRED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, REQUEST_ID_REUSED, DRAINING.
   */
  Execution execute(String leaseId, String argumentsJson, OptionalDouble seconds, String key, Execution.Listener listener) {
    Object outcome;
    Execution fresh = null;
    Callable<String> call = null;
    synchronized (this) {
      checkOpen();
      Lease lease = leases.find(leaseId);
      Shared shared = find(lease.toolName);
      for (CallWindow window : new CallWindow[] {lease.window, shared.window}) {
        if (window != null) {
          window.check(lease.toolName);
        }
      }
      for (CallWindow window : new CallWindow[] {lease.window, shared.window}) {
        if (window != null) {
          window.take();
        }
      }
      double limit = limit(seconds, shared.tool.timeout());
      if (Texts.characters(key) > MAX_KEY) {
        throw ArchonException.invalid("idempotency_key", "must have at most " + MAX_KEY + " characters");
      }
      JsonObject arguments = shared.check.read(argumentsJson);
      List<String> keptKey = key.isEmpty() ? null : keptKey(lease, key);
      String canonical = sorted(arguments).toString();
      outcome = keptKey == null ? null : kept.find(keptKey, canonical);
      if (outcome == null) {
        checkRoom(lease, shared);
        Execution execution =
            new Execution(lease, limit, each -> ended(each, shared, keptKey), each -> left(each, shared));
        SharedTool.Call context =
            new SharedTool.Call(
                lease.toolName, lease.task, lease.instanceId, execution::report, System.nanoTime() / 1e9 + limit);
        call = () -> shared.tool.execute().execute(arguments.toString(), context);
        executions.add(execution);
        lease.calls++;
        shared.calls++;
        if (keptKey != null) {
          kept.begin(keptKey, canonical, execution);
        }
        outcome = fresh = execution;
      }
    }
    if (outcome instanceof ToolResult known) {
      listener.done(known, null);
      return null;
    }
    Execution execution = (Execution) outcome;
    execution.listen(listener);
    if (fresh != null) {
      start(fresh, call);
    }
    return execution;
  }

  private void start(Execution execution, Callable<String> call) {
    TaskRef task = execution.lease.task;
    CallContext served = CallContext.current();
    CallContext own =
        task == null
            ? served
            : new CallContext(served.time(), served.trace(), task.runId(), task.taskId(), task.attempt(), "", served.principal());
    Context context = Context.ROOT.withValue(CallContext.KEY, own);
    Callable<String> traced = service.traced(execution.lease, call, own.trace());
    pool.execute(context.wrap(() -> execution.run(traced, timers)));
  }

  private void ended(Execution execution, Shared shared, List<String> key) {
    ToolResult result = execution.result();
    boolean ok = result != null && result.getStatusValue() == ToolStatus.SUCCESS.number();
    double took = System.nanoTime() / 1e9 - execution.began;
    synchronized (this) {
      if (result != null) {
        shared.figures.count(took, ok);
      }
      if (key != null) {
        if (!ok && shared.tool.tool().idempotent()) {
          kept.forget(key); // a further call does no harm
        } else {
          kept.keep(key, result != null ? result : unknownOutcome());
        }
      }
    }
    log("execute", execution.lease, String.format("%s in %.3f s", ok ? "success" : "failed", took));
  }

  private static ToolResult unknownOutcome() {
    String text = "an earlier call with this idempotency key was ended before its result was known: it may have acted";
    return SharedToolResult.error(ArchonException.of(Reasons.UNAVAILABLE, text).build()).proto();
  }

  private synchronized void left(Execution execution, Shared shared) {
    executions.remove(execution);
    execution.lease.calls--;
    shared.calls--;
    notifyAll();
  }

  private static double limit(OptionalDouble seconds, double toolSeconds) {
    double asked = seconds.orElse(CALL_SECONDS);
    if (!(asked > 0)) {
      throw ArchonException.invalid("timeout", "must be above 0 s");
    }
    double least = Math.min(asked, Math.min(toolSeconds, SharedTool.MAX_SECONDS));
    OptionalDouble left = CallContext.current().remaining();
    return left.isPresent() ? Math.min(least, Math.max(0, left.getAsDouble() - ANSWER_MARGIN)) : least;
  }

  /** Keys belong to a task, whichever of its attempts and leases they come with; without a task, to the lease. */
  private static List<String> keptKey(Lease lease, String key) {
    return lease.task != null
        ? List.of(lease.toolName, lease.task.runId(), lease.task.taskId(), key)
        : List.of(lease.toolName, lease.id, key);
  }

  private static JsonElement sorted(JsonElement value) {
    if (!value.isJsonObject()) {
      return value;
    }
    JsonObject out = new JsonObject();
    new TreeMap<>(value.getAsJsonObject().asMap()).forEach((name, each) -> out.add(name, sorted(each)));
    return out;
  }

  private Shared find(String toolName) {
    Shared shared = tools.get(toolName);
    if (shared == null) {
      String shown = Texts.head(toolName, 80);
      String text = "this instance shares no tool '" + shown + "'";
      throw ArchonException.of(Reasons.NOT_FOUND, text).metadata("tool", shown).build();
    }
    return shared;
  }

  private void checkOpen() {
    if (isDraining) {
      throw ArchonException.of(Reasons.DRAINING, "the owner of the tool is stopping").metadata(BEGUN, "false").build();
    }
  }

  private void checkRoom(Lease lease, Shared shared) {
    checkBelow(lease.calls, MAX_CALLS_OF_LEASE, "this lease");
    checkBelow(shared.calls, shared.tool.maxConcurrent(), "tool " + lease.toolName);
    checkBelow(executions.size(), MAX_CALLS, "the tools of this instance");
  }

  private static void checkBelow(int calls, int most, String whose) {
    if (calls >= most) {
      String text = most + " calls of " + whose + " are in progress";
      throw ArchonException.of(Reasons.RESOURCE_EXHAUSTED, text).retryDelay(1.0).build();
    }
  }

  private static void log(String event, Lease lease, String what) {
    LOG.log(System.Logger.Level.INFO, "{0} of tool {1}, lease {2}: {3}", event, lease.toolName, lease.shown(), what);
  }

  // The end

  /** Refuses further leases and calls; calls in progress go on. */
  public synchronized void drain() {
    isDraining = true;
  }

  /** Waits until no call is in progress, at most so many seconds. Returns whether that came in time. */
  public synchronized boolean awaitIdle(double seconds) throws InterruptedException {
    double until = System.nanoTime() / 1e9 + seconds;
    while (!executions.isEmpty()) {
      long left = (long) ((until - System.nanoTime() / 1e9) * 1000);
      if (left <= 0) {
        return false;
      }
      wait(left);
    }
    return true;
  }

  /** Ends all leases and calls. Returns the number of tools that ignore that for a second. */
  public int stop() throws InterruptedException {
    List<Execution> running;
    synchronized (this) {
      isDraining = true;
      leases.clear();
      running = List.copyOf(executions);
    }
    String text = "the owner of the tool is stopping";
    ArchonException error = ArchonException.of(Reasons.UNAVAILABLE, text).metadata(BEGUN, "true").build();
    running.forEach(each -> each.end(error));
    int behind = 0;
    for (Execution each : running) {
      behind += each.awaitLeft(1.0) ? 0 : 1;
    }
    pool.shutdownNow();
    timers.shutdownNow();
    return behind;
  }
}
