package dev.archon.sdk.registry;

import dev.archon.api.registry.v1.DeregisterInstanceRequest;
import dev.archon.api.registry.v1.GetGraphRequest;
import dev.archon.api.registry.v1.ListInstancesRequest;
import dev.archon.api.registry.v1.ListInstancesResponse;
import dev.archon.api.registry.v1.PinEdgesRequest;
import dev.archon.api.registry.v1.RegisterInstanceRequest;
import dev.archon.api.registry.v1.RegisterInstanceResponse;
import dev.archon.api.registry.v1.RegistryServiceGrpc;
import dev.archon.api.registry.v1.ResolveInstancesRequest;
import dev.archon.api.registry.v1.UnpinEdgesRequest;
import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.channel.CertificateFolder;
import dev.archon.sdk.channel.Channels;
import dev.archon.sdk.channel.Credentials;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.channel.Peer;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.internal.Wire;
import io.grpc.ManagedChannel;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;

/**
 * A connection to the registry at host:port, made at the first call. Calls throw UNAVAILABLE and DEADLINE_EXCEEDED if the registry or
 * its store is unreachable, INVALID_ARGUMENT with the invalid fields. Its registrations are its own: other clients can neither change
 * nor end them.
 */
public final class RegistryClient implements AutoCloseable {
  private static final double REGISTER_TIMEOUT = 10.0;
  private static final double CALL_TIMEOUT = 6.0;
  private static final double CLOSE_TIMEOUT = 2.0;

  private final String target;
  private final ManagedChannel channel;
  private final String token;
  private final Set<RegistrationHandle> handles = ConcurrentHashMap.newKeySet();
  private volatile BiConsumer<String, String> onRegistered = (keys, tenant) -> {};

  /** Connects with the credentials and the certificate that the environment gives. */
  public RegistryClient(String target) {
    this(target, Environment.own(), null, null);
  }

  /** Connects with these credentials and this certificate; null for the own ones. */
  public RegistryClient(
      String target, Environment environment, Credentials credentials, CertificateFolder certificate) {
    this.target = target;
    channel = Channels.connect(target, Peer.REGISTRY, environment, credentials, certificate);
    byte[] secret = new byte[24];
    new SecureRandom().nextBytes(secret);
    token = Base64.getUrlEncoder().withoutPadding().encodeToString(secret);
  }

  /** Returns host:port. */
  public String target() {
    return target;
  }

  /** Sets what is called with the public keys of the mesh (a JSON Web Key Set, or empty) and the tenant after each registration. */
  public void onRegistered(BiConsumer<String, String> callback) {
    onRegistered = callback;
  }

  /**
   * Registers, and keeps the registration alive until the handle is closed. Throws errors that are not transient: INVALID_ARGUMENT,
   * CONFLICT, PERMISSION_DENIED. If the registry is unreachable for ten seconds, the handle goes on in the background.
   */
  public RegistrationHandle register(Registration registration) throws InterruptedException {
    RegistrationHandle handle = new RegistrationHandle(this, registration);
    handles.add(handle);
    handle.start();
    try {
      handle.awaitAnswer(REGISTER_TIMEOUT);
    } catch (ArchonException refused) {
      handles.remove(handle);
      handle.abandon();
      throw refused;
    } catch (InterruptedException interrupted) {
      handle.close();
      throw interrupted;
    }
    return handle;
  }

  double registerOnce(Registration registration) throws InterruptedException {
    RegisterInstanceRequest request =
        RegisterInstanceRequest.newBuilder().setRegistration(Convert.toProto(registration)).setToken(token).build();
    RegisterInstanceResponse answer =
        Calls.unary(channel, RegistryServiceGrpc.getRegisterInstanceMethod(), request, CALL_TIMEOUT);
    onRegistered.accept(answer.getKeysJson(), answer.getRegistration().getTenant());
    answer.getRefusedEdgesList()
        .forEach(
            refused ->
                System.getLogger("dev.archon.sdk")
                    .log(
                        System.Logger.Level.WARNING,
                        "an edge of {0} is refused because it would close the cycle {1}",
                        registration.instanceId(), refused.getCycle()));
    return Wire.seconds(answer.getTtl());
  }

  KeepAliveStream openKeepAlive() {
    return new KeepAliveStream(RegistryServiceGrpc.newStub(channel), token);
  }

  void deregister(RegistrationHandle handle) {
    handles.remove(handle);
    String id = handle.registration().instanceId();
    DeregisterInstanceRequest request =
        DeregisterInstanceRequest.newBuilder().setInstanceId(id).setToken(token).build();
    try {
      Calls.unary(channel, RegistryServiceGrpc.getDeregisterInstanceMethod(), request, CLOSE_TIMEOUT);
    } catch (ArchonException unreachable) {
      System.getLogger("dev.archon.sdk")
          .log(System.Logger.Level.INFO, "{0} could not be deregistered, its lease will expire: {1}", id, unreachable);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Returns the live instances of a role, newest version first. Throws UNKNOWN_ROLE if there is none at all. */
  public List<Registration> resolve(String role) throws InterruptedException {
    return resolve(ResolveInstancesRequest.newBuilder().setRole(role).build());
  }

  /** Returns the live instances with a capability. Throws UNKNOWN_CAPABILITY if there is none at all. */
  public List<Registration> resolveCapability(String capability) throws InterruptedException {
    return resolve(ResolveInstancesRequest.newBuilder().setCapability(capability).build());
  }

  /** Returns the live instances of a role that match a version, which may end in {@code .*}, and all of these tags. */
  public List<Registration> resolve(String role, String version, Map<String, String> tags) throws InterruptedException {
    return resolve(ResolveInstancesRequest.newBuilder().setRole(role).setVersion(version).putAllTags(tags).build());
  }

  private List<Registration> resolve(ResolveInstancesRequest request) throws InterruptedException {
    return Calls.unary(channel, RegistryServiceGrpc.getResolveInstancesMethod(), request, CALL_TIMEOUT)
        .getInstancesList().stream()
        .map(Convert::fromProto)
        .toList();
  }

  /** Returns all live instances, of one role unless it is empty, sorted by role and instance id. */
  public List<Registration> listInstances(String role) throws InterruptedException {
    List<Registration> instances = new ArrayList<>();
    String page = "";
    do {
      ListInstancesRequest request =
          ListInstancesRequest.newBuilder().setPageSize(1_000).setPageToken(page).setRole(role).build();
      ListInstancesResponse answer =
          Calls.unary(channel, RegistryServiceGrpc.getListInstancesMethod(), request, CALL_TIMEOUT);
      answer.getInstancesList().forEach(each -> instances.add(Convert.fromProto(each)));
      page = answer.getNextPageToken();
    } while (!page.isEmpty());
    return instances;
  }

  /** Returns the current graph of roles. */
  public Graph graph() throws InterruptedException {
    GetGraphRequest request = GetGraphRequest.getDefaultInstance();
    return Graph.of(Calls.unary(channel, RegistryServiceGrpc.getGetGraphMethod(), request, CALL_TIMEOUT).getGraph());
  }

  /** Pins edges, all or none, and returns the new graph. Throws CYCLE, with the path in metadata["cycle"]. */
  public Graph pinEdges(List<Edge> edges) throws InterruptedException {
    PinEdgesRequest request = PinEdgesRequest.newBuilder().addAllEdges(edges.stream().map(Edge::proto).toList()).build();
    return Graph.of(Calls.unary(channel, RegistryServiceGrpc.getPinEdgesMethod(), request, CALL_TIMEOUT).getGraph());
  }

  /** Unpins edges, and returns the new graph; edges that are not pinned are ignored. */
  public Graph unpinEdges(List<Edge> edges) throws InterruptedException {
    UnpinEdgesRequest request =
        UnpinEdgesRequest.newBuilder().addAllEdges(edges.stream().map(Edge::proto).toList()).build();
    return Graph.of(Calls.unary(channel, RegistryServiceGrpc.getUnpinEdgesMethod(), request, CALL_TIMEOUT).getGraph());
  }

  /** Watches instances and edges from a snapshot on; it resumes by itself after any outage. Close it. */
  public RegistryWatch watch() {
    return new RegistryWatch(channel);
  }

  /** Deregisters all registrations, within about two seconds, and closes the connection. Idempotent. */
  @Override
  public void close() {
    List.copyOf(handles).forEach(RegistrationHandle::close);
    Channels.close(channel);
  }
}
