package dev.archon.sdk.agent;

import dev.archon.sdk.channel.Authenticator;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.channel.MeshServer;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.registry.Registration;
import dev.archon.sdk.registry.RegistrationHandle;
import dev.archon.sdk.registry.RegistryClient;
import dev.archon.sdk.tools.SharedTools;
import dev.archon.sdk.tools.ToolOwner;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * Serves one role as a full member of the mesh, and keeps it registered.
 *
 * <pre>{@code
 * System.exit(AgentServer.builder("translator").handler(task -> translate(task.text())).build().run());
 * }</pre>
 *
 * <p>Settings that are not given come from the environment, so that the same program runs on a laptop and in a cluster. Use
 * {@link #run} for a process of its own, {@link #start} and {@link #stop} inside of another program. A server serves once.
 */
public final class AgentServer implements AutoCloseable {
  private static final double ATTACH_TIMEOUT = 10.0;
  private static final System.Logger LOG = System.getLogger("dev.archon.sdk");

  private final AgentSettings settings;
  private final boolean isAlone;
  private final Environment environment;
  private final ToolOwner tools;
  private final AgentCore core;
  private final DirectInbox direct;
  private volatile Registration registration;
  private MeshServer server;
  private RegistryClient registry;
  private RegistrationHandle handle;
  private volatile Attachment attachment;
  private Reachability reachability;
  private Advertising advertising;
  private boolean isStarted;
  private CompletableFuture<Integer> stopped;

  AgentServer(AgentBuilder builder) {
    settings = builder.settings();
    isAlone = builder.isAlone();
    environment = builder.environment();
    tools = new ToolOwner(builder.sharedTools(), builder.telemetry());
    registration = builder.registration(settings, tools.advertised());
    registration.checkNames();
    var types = registration.profile() == null ? java.util.Map.<String, String>of() : registration.profile().messageTypes();
    direct = new DirectInbox(registration.role(), types, builder.directHandler());
    core = new AgentCore(registration, builder.replyHandler(), builder.maxWaiting(), builder.telemetry());
  }

  /** Begins the server of a role. */
  public static AgentBuilder builder(String role) {
    return new AgentBuilder(role);
  }

  /** Returns the id of this instance, new with each server. */
  public String instanceId() {
    return registration.instanceId();
  }

  /** Returns the registration as it is, or will be, made. */
  public Registration registration() {
    return registration;
  }

  /** Returns the settings. */
  public AgentSettings settings() {
    return settings;
  }

  /** Returns host:port as bound; empty before {@link #start}, and if the agent is attached. */
  public synchronized String address() {
    return server == null ? "" : server.address();
  }

  /** Returns the tools that other agents may lease and execute here. */
  public SharedTools sharedTools() {
    return new SharedTools(tools);
  }

  /** Returns whether the registry is known to hold the registration. */
  public synchronized boolean isRegistered() {
    return handle != null && handle.isRegistered();
  }

  /**
   * Starts serving, then registers if a registry is configured; while that is unreachable, registration goes on in the background.
   * With {@link AgentSettings#attach} it attaches instead. Returns the address: its own, or that of the orchestrator.
   *
   * <p>Throws UNAVAILABLE if the port is taken, FAILED_PRECONDITION if an attached agent has tools to lend, and the errors with which
   * the registry or the orchestrator refuses the registration, such as INVALID_ARGUMENT.
   */
  public synchronized String start() throws InterruptedException {
    if (isStarted) {
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, "the server has been started before").build();
    }
    isStarted = true;
    try {
      return settings.attach().isEmpty() ? serve() : attach();
    } catch (ArchonException | InterruptedException refused) {
      stop(0);
      throw refused;
    }
  }

  private String serve() throws InterruptedException {
    Authenticator authenticator = new Authenticator(settings.registry(), environment);
    AgentService service = new AgentService(core, this::registration, direct);
    server =
        new MeshServer(
            settings.host(),
            settings.port(),
            List.of(service.definition(), tools.service().bindService()),
            authenticator,
            environment);
    registration = registration.withAddress(settings.advertised(server.port()));
    core.start();
    direct.start();
    if (settings.registry().isEmpty()) {
      if (!isAlone) {
        LOG.log(System.Logger.Level.WARNING, "no registry is configured (ARCHON_REGISTRY), so no orchestrator finds this agent");
      }
    } else {
      registry = new RegistryClient(settings.registry(), environment, null, null);
      registry.onRegistered(authenticator::tell);
      handle = registry.register(registration);
      advertising = new Advertising(tools, handle, changed -> registration = changed);
      advertising.start();
      if (!settings.orchestrator().isEmpty() && tools.advertised().isEmpty()) {
        reachability =
            new Reachability(
                settings.orchestrator(), environment, handle::isRegistered, core::isReached, this::attachUnreached);
        reachability.start();
      }
    }
    return server.address();
  }

  private String attach() throws InterruptedException {
    if (!tools.advertised().isEmpty()) {
      String text = "an attached agent cannot lend tools: other agents cannot dial it";
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, text).build();
    }
    core.start();
    attachment = new Attachment(core, registration, settings.attach(), environment);
    attachment.start(ATTACH_TIMEOUT);
    return settings.attach();
  }

  private void attachUnreached() throws InterruptedException {
    String target = settings.orchestrator();
    String text = "no orchestrator can dial {0} at {1}: attaching to {2}";
    LOG.log(System.Logger.Level.WARNING, text, instanceId(), registration.address(), target);
    handle.close();
    attachment = new Attachment(core, registration, target, environment);
    attachment.start(ATTACH_TIMEOUT);
  }

  /** Drains within the time of the settings, and stops. */
  @Override
  public void close() {
    try {
      stop(settings.drain());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Drains: deregisters, takes no new tasks, finishes tasks in progress within so many seconds, waits a little for results to be acked,
   * then ends. Tasks that take longer are given back: they are cancelled here and dispatched to other instances. Idempotent: a second
   * call waits for the first one. Returns the number of handlers that ignored their cancellation.
   */
  public int stop(double grace) throws InterruptedException {
    CompletableFuture<Integer> mine = new CompletableFuture<>();
    CompletableFuture<Integer> first;
    synchronized (this) {
      first = stopped;
      if (first == null) {
        stopped = mine;
      }
    }
    if (first != null) {
      try {
        return first.get();
      } catch (ExecutionException failed) {
        return 0;
      }
    }
    int left = 0;
    try {
      left = stopNow(grace);
    } finally {
      mine.complete(left);
    }
    return left;
  }

  private int stopNow(double grace) throws InterruptedException {
    if (reachability != null) {
      reachability.close();
    }
    if (server != null) {
      server.unhealthy();
    }
    core.drain();
    tools.drain();
    if (advertising != null) {
      advertising.close();
    }
    if (registry != null) {
      registry.close();
    }
    double began = System.nanoTime() / 1e9;
    boolean isIdle = core.awaitIdle(grace) && tools.awaitIdle(grace - (System.nanoTime() / 1e9 - began));
    if (!isIdle) {
      LOG.log(System.Logger.Level.WARNING, "stopping with tasks in progress");
    }
    if (!core.awaitAcks(Math.min(grace, AgentCore.ACK_GRACE))) {
      LOG.log(System.Logger.Level.WARNING, "stopping with results that were never acked");
    }
    int left = tools.stop() + core.stop();
    if (attachment != null) {
      attachment.close();
    }
    core.awaitStreams(1.0);
    direct.close();
    if (server != null) {
      server.stop(1.0);
    }
    core.close();
    return left;
  }

  /** Serves until SIGTERM or SIGINT, then drains. Returns the exit code of the process: 0 after a drain, 1 if it could not start. */
  public int run() throws InterruptedException {
    Signals stop = Signals.install();
    String address;
    try {
      address = start();
    } catch (ArchonException error) {
      LOG.log(System.Logger.Level.ERROR, String.valueOf(error.getMessage()));
      return 1;
    }
    ReadyFile.write(settings.readyFile(), address);
    String what = settings.attach().isEmpty() ? "serves on" : "is attached to";
    LOG.log(System.Logger.Level.INFO, "{0} {1} {2}", instanceId(), what, address);
    int code = 0;
    CompletableFuture<ArchonException> invalid = handle == null ? new CompletableFuture<>() : handle.invalid();
    CompletableFuture.anyOf(stop.received(), invalid).exceptionally(error -> null).join();
    if (invalid.isDone() && !stop.received().isDone()) {
      LOG.log(System.Logger.Level.ERROR, String.valueOf(invalid.getNow(null)));
      code = 1;
    }
    int left = stop(settings.drain());
    ReadyFile.remove(settings.readyFile());
    stop.done();
    return left > 0 ? 1 : code;
  }
}
