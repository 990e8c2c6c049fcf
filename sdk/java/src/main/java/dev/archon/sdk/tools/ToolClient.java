package dev.archon.sdk.tools;

import dev.archon.sdk.channel.CertificateFolder;
import dev.archon.sdk.channel.Channels;
import dev.archon.sdk.channel.Credentials;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.channel.Peer;
import dev.archon.sdk.registry.Registration;
import dev.archon.sdk.registry.RegistryClient;
import dev.archon.sdk.types.TaskRef;
import io.grpc.ManagedChannel;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Finds, leases and executes the tools that instances of the mesh share. For any thread; close it. */
public final class ToolClient implements AutoCloseable {
  private static final int MAX_PEERS = 64;
  private static final double FRESH_SECONDS = 5.0;

  /** What the registry has listed for a role, which is empty for all, and when (monotonic seconds). */
  private record Listed(List<Registration> instances, double at) {}

  private final RegistryClient registry;
  private final Environment environment;
  private final Credentials credentials;
  private final String instanceId;
  private final Map<String, ManagedChannel> peers = new LinkedHashMap<>(16, 0.75f, true);
  private final Map<String, Listed> listed = new LinkedHashMap<>();

  /** Connects to the registry at host:port; {@code instanceId} names this process in the logs of owners, and may be empty. */
  public ToolClient(String registry, String instanceId) {
    this(registry, instanceId, Environment.own());
  }

  /** Connects with the credentials and the certificate of an environment. */
  public ToolClient(String registry, String instanceId, Environment environment) {
    this.registry = new RegistryClient(registry, environment, null, null);
    this.environment = environment;
    this.instanceId = instanceId;
    this.credentials = Credentials.own(registry, environment);
  }

  String instanceId() {
    return instanceId;
  }

  /** Returns the shared tools of live instances, of one name and role unless those are empty, best first. */
  public List<FoundTool> find(String name, String role) throws InterruptedException {
    return find(name, role, false);
  }

  /** Returns tools from a list that is at most 5 s old, or with {@code fresh} from a new one. */
  List<FoundTool> find(String name, String role, boolean fresh) throws InterruptedException {
    double now = System.nanoTime() / 1e9;
    synchronized (this) {
      for (String known : List.of(role, "")) {
        Listed before = listed.get(known);
        if (!fresh && before != null && before.at + FRESH_SECONDS > now) {
          return FoundTool.in(before.instances, name, role);
        }
      }
    }
    List<Registration> instances = registry.listInstances(role);
    synchronized (this) {
      if (listed.size() >= MAX_PEERS) {
        listed.clear();
      }
      listed.put(role, new Listed(instances, System.nanoTime() / 1e9));
    }
    return FoundTool.in(instances, name, role);
  }

  /** Returns a tool to be leased at the first call, from whichever role has the best one of this name. Close it. */
  public LeasedTool lease(String name) {
    return lease(name, "", null);
  }

  /** Returns a tool of a role (empty: any), to be leased for an attempt (null: for none). Close it. */
  public LeasedTool lease(String name, String role, TaskRef task) {
    return new LeasedTool(this, name, role, task);
  }

  /** Returns the connection to the instance that shares a tool. */
  ManagedChannel peer(FoundTool owner) {
    ManagedChannel oldest = null;
    ManagedChannel channel;
    synchronized (peers) {
      channel = peers.get(owner.address());
      if (channel == null) {
        CertificateFolder none = null;
        channel = Channels.connect(owner.address(), Peer.agent(owner.role()), environment, credentials, none);
        peers.put(owner.address(), channel);
        if (peers.size() > MAX_PEERS) {
          String first = peers.keySet().iterator().next();
          oldest = peers.remove(first);
        }
      }
    }
    if (oldest != null) {
      oldest.shutdown();
    }
    return channel;
  }

  /** Closes all connections. Leases that were not released expire. */
  @Override
  public void close() {
    List<ManagedChannel> open;
    synchronized (peers) {
      open = List.copyOf(peers.values());
      peers.clear();
    }
    open.forEach(Channels::close);
    registry.close();
  }
}
