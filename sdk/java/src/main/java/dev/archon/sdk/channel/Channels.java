package dev.archon.sdk.channel;

import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.netty.shaded.io.grpc.netty.NegotiationType;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLException;

/**
 * gRPC channels: message sizes, keepalive, retries, TLS and credentials.
 *
 * <p>Channels to services ping every 10 s, the least that grpc-java allows, by which a frozen peer is noticed; channels to agents ping at
 * most once a minute, because a server on its defaults closes connections that are pinged more often. No channel goes through a proxy of the
 * environment: a mesh is never behind one.
 */
public final class Channels {
  /** The largest message that gRPC takes. */
  public static final int MAX_RECEIVE_BYTES = 16 * 1024 * 1024;

  /** The largest metadata of a call. */
  public static final int MAX_METADATA_BYTES = 16 * 1024;

  private static final Map<String, ?> RETRIES =
      Map.of(
          "maxAttempts", 4.0,
          "initialBackoff", "0.1s",
          "maxBackoff", "1s",
          "backoffMultiplier", 2.0,
          "retryableStatusCodes", List.of("UNAVAILABLE"));

  private Channels() {}

  /**
   * Returns a channel to a peer at host:port, which connects at the first call; the caller shuts it down. Calls present the
   * credentials, null for the own ones, and carry the deadline and the trace of the call being served. With a certificate, null
   * for the own one, the connection is encrypted, and the certificate of the other side must name the peer.
   *
   * <p>Throws FAILED_PRECONDITION if the own certificate cannot be used, INVALID_ARGUMENT if the target is no address.
   */
  public static ManagedChannel connect(
      String target, Peer peer, Environment environment, Credentials credentials, CertificateFolder certificate) {
    Credentials presented = credentials == null ? Credentials.own(target, environment) : credentials;
    CertificateFolder folder = certificate == null ? CertificateFolder.own(target, environment) : certificate;
    return connect(target, peer, new Outgoing(presented, peer.audience(), environment.get("ARCHON_MESH")), folder);
  }

  static ManagedChannel connect(String target, Peer peer, Outgoing outgoing, CertificateFolder folder) {
    NettyChannelBuilder builder;
    try {
      builder = NettyChannelBuilder.forTarget(target);
    } catch (IllegalArgumentException malformed) {
      throw ArchonException.of(Reasons.INVALID_ARGUMENT, "'" + target + "' is no address (host:port)").build();
    }
    boolean isService = peer.kind() == Principal.Kind.SERVICE;
    boolean isOneAddress = Addresses.isIp(Addresses.host(target));
    String policy = isOneAddress || !isService ? "pick_first" : "round_robin";
    Map<String, ?> retried = Map.of("name", List.of(Map.of()), "retryPolicy", RETRIES);
    Waking waking = new Waking();
    builder
        .proxyDetector(address -> null)
        .maxInboundMessageSize(MAX_RECEIVE_BYTES)
        .maxInboundMetadataSize(MAX_METADATA_BYTES)
        .keepAliveTime(isService ? 10 : 60, TimeUnit.SECONDS)
        .keepAliveTimeout(2, TimeUnit.SECONDS)
        .keepAliveWithoutCalls(isService)
        .idleTimeout(1, TimeUnit.DAYS)
        .defaultLoadBalancingPolicy(policy)
        .disableServiceConfigLookUp()
        .intercept(outgoing, waking);
    if (isService) {
      builder.defaultServiceConfig(Map.of("methodConfig", List.of(retried))).enableRetry();
    } else {
      builder.disableRetry();
    }
    if (folder == null) {
      return waking.use(reconnecting(builder.usePlaintext().build()));
    }
    SpiffeId own = folder.identity();
    String tenant = isService ? Principal.DEFAULT_TENANT : own.tenant();
    try {
      return waking.use(reconnecting(builder
          .negotiationType(NegotiationType.TLS)
          .sslContext(Tls.client(folder))
          .overrideAuthority(new SpiffeId(own.mesh(), tenant, peer.kind(), peer.name()).dnsName())
          .build()));
    } catch (SSLException error) {
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, "cannot use TLS: " + error.getMessage()).cause(error).build();
    }
  }

  /**
   * Makes a channel connect again within half a second while it cannot: gRPC's own pause begins with 1 s and grows to two minutes, so
   * that a service which was restarted would stay out of reach.
   */
  private static ManagedChannel reconnecting(ManagedChannel channel) {
    ConnectivityState state = channel.getState(false);
    if (state == ConnectivityState.TRANSIENT_FAILURE) {
      long pause = ThreadLocalRandom.current().nextLong(200, 500);
      CompletableFuture.delayedExecutor(pause, TimeUnit.MILLISECONDS)
          .execute(
              () -> {
                channel.resetConnectBackoff();
                reconnecting(channel);
              });
    } else if (state != ConnectivityState.SHUTDOWN) {
      channel.notifyWhenStateChanged(state, () -> reconnecting(channel));
    }
    return channel;
  }

  /** Has a channel that cannot connect try again at each call: its retries then find the service, if it is back. */
  private static final class Waking implements ClientInterceptor {
    private volatile ManagedChannel channel;

    private ManagedChannel use(ManagedChannel made) {
      channel = made;
      return made;
    }

    @Override
    public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
      if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
        channel.resetConnectBackoff();
      }
      return next.newCall(method, options);
    }
  }

  /** Shuts a channel down, and waits for its threads at most two seconds. */
  public static void close(ManagedChannel channel) {
    channel.shutdownNow();
    try {
      channel.awaitTermination(2, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
