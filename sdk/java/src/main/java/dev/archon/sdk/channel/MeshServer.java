package dev.archon.sdk.channel;

import dev.archon.api.agent.v1.AgentServiceGrpc;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import io.grpc.BindableService;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallExecutorSupplier;
import io.grpc.ServerMethodDefinition;
import io.grpc.ServerServiceDefinition;
import io.grpc.HandlerRegistry;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.protobuf.services.ProtoReflectionServiceV1;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLException;

/** The gRPC server of an agent: guarded handlers, health, reflection, and graceful shutdown. */
public final class MeshServer {
  private static final String INSECURE = "ARCHON_INSECURE";

  private final Server server;
  private final Server healthServer;
  private final String host;
  private final HealthStatusManager health = new HealthStatusManager();
  private final ExecutorService executor;
  private final ScheduledExecutorService checks;
  private final AtomicBoolean isUnhealthy = new AtomicBoolean();

  /**
   * Serves on host:port; port 0 picks a free one. Throws UNAVAILABLE if the port is taken, FAILED_PRECONDITION if others could
   * read the traffic and that is not allowed.
   */
  public MeshServer(
      String host, int port, List<ServerServiceDefinition> services, Authenticator authenticator, Environment environment) {
    this.host = host;
    CertificateFolder folder = authenticator.certificate();
    checkListening(host, folder != null, environment);
    Guard guard = new Guard(authenticator, environment.get("ARCHON_MESH"));
    executor = Executors.newCachedThreadPool(named("archon-rpc"));
    checks = Executors.newSingleThreadScheduledExecutor(named("archon-credentials"));
    NettyServerBuilder builder =
        NettyServerBuilder.forAddress(new InetSocketAddress(Addresses.host(Addresses.withPort(host, 1)), port))
            .executor(executor)
            .callExecutor(new Sessions())
            .maxInboundMessageSize(64 * 1024 * 1024)
            .maxInboundMetadataSize(Channels.MAX_METADATA_BYTES)
            .permitKeepAliveTime(400, TimeUnit.MILLISECONDS)
            .permitKeepAliveWithoutCalls(true)
            .intercept(guard)
            .addService(health.getHealthService())
            .addService(ProtoReflectionServiceV1.newInstance())
            .addService(reflectionV1Alpha())
            .fallbackHandlerRegistry(new Unknown());
    services.forEach(builder::addService);
    try {
      if (folder != null) {
        builder.sslContext(Tls.server(folder));
      }
      server = builder.build().start();
      healthServer = folder == null ? null : healthAlone(environment.get("ARCHON_HEALTH_PORT"));
    } catch (SSLException error) {
      end();
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, "cannot use TLS: " + error.getMessage()).cause(error).build();
    } catch (IOException error) {
      end();
      String address = Addresses.withPort(host, port);
      String text = "cannot listen on " + address + ": is another process using the port?";
      throw ArchonException.of(Reasons.UNAVAILABLE, text).metadata("address", address).cause(error).build();
    }
    services.forEach(service -> health.setStatus(service.getServiceDescriptor().getName(), ServingStatus.SERVING));
    checks.scheduleWithFixedDelay(guard::endRefused, 1, 1, TimeUnit.SECONDS);
  }

  @SuppressWarnings("deprecation") // clients such as older grpcurl know this version alone
  private static BindableService reflectionV1Alpha() {
    return io.grpc.protobuf.services.ProtoReflectionService.newInstance();
  }

  private Server healthAlone(String where) throws IOException {
    if (where.isEmpty()) {
      return null;
    }
    String address = where.indexOf(':') < 0 ? Addresses.withPort(host, Integer.parseInt(where)) : where;
    InetSocketAddress socket = new InetSocketAddress(Addresses.host(address), Addresses.port(address));
    return NettyServerBuilder.forAddress(socket).executor(executor).addService(health.getHealthService()).build().start();
  }

  private static void checkListening(String host, boolean isEncrypted, Environment environment) {
    if (isEncrypted || Addresses.isLoopback(host)) {
      return;
    }
    if (environment.get(INSECURE).isEmpty()) {
      String text =
          host + " can be reached from other machines, and traffic would be in clear text: set ARCHON_TLS to the folder of a"
              + " certificate, or ARCHON_INSECURE=1 if the network is closed to others";
      throw ArchonException.of(Reasons.FAILED_PRECONDITION, text).build();
    }
    System.getLogger("dev.archon.sdk")
        .log(
            System.Logger.Level.WARNING,
            "listening on " + host + " without TLS: every host of the network can read and change all traffic");
  }

  /**
   * Has the messages of a session handed to the loop by the thread that reads the connection, in the order of the connection: one
   * read before a cancellation is not lost, and none overtakes that of an earlier stream. A session begins on a pooled thread.
   */
  private static final class Sessions implements ServerCallExecutorSupplier {
    private static final String METHOD = AgentServiceGrpc.getSessionMethod().getFullMethodName();

    @Override
    public <ReqT, RespT> Executor getExecutor(ServerCall<ReqT, RespT> call, Metadata metadata) {
      return call.getMethodDescriptor().getFullMethodName().equals(METHOD) ? Runnable::run : null;
    }
  }

  /** Returns a factory of daemon threads that are named and numbered. */
  public static java.util.concurrent.ThreadFactory named(String name) {
    AtomicInteger count = new AtomicInteger();
    return work -> {
      Thread thread = new Thread(work, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /** Returns the port that the server listens on. */
  public int port() {
    return server.getPort();
  }

  /** Returns host:port where the server listens. */
  public String address() {
    return Addresses.withPort(host, port());
  }

  /** Makes health report NOT_SERVING, so that clients send no new calls. */
  public void unhealthy() {
    if (!isUnhealthy.getAndSet(true)) {
      health.enterTerminalState();
    }
  }

  /** Refuses new calls, gives calls in progress {@code grace} seconds, and ends its threads. */
  public void stop(double grace) throws InterruptedException {
    unhealthy();
    try {
      server.shutdown();
      if (healthServer != null) {
        healthServer.shutdownNow();
      }
      if (!server.awaitTermination((long) (grace * 1000), TimeUnit.MILLISECONDS)) {
        server.shutdownNow();
        server.awaitTermination(2, TimeUnit.SECONDS);
      }
    } finally {
      end();
    }
  }

  private void end() {
    checks.shutdownNow();
    executor.shutdown();
  }

  /** Methods that nothing here serves: answered with a typed error. */
  private static final class Unknown extends HandlerRegistry {
    private static final MethodDescriptor.Marshaller<byte[]> BYTES = RawBytes.MARSHALLER;

    @Override
    public ServerMethodDefinition<?, ?> lookupMethod(String name, String authority) {
      MethodDescriptor<byte[], byte[]> method =
          MethodDescriptor.<byte[], byte[]>newBuilder(BYTES, BYTES)
              .setType(MethodDescriptor.MethodType.UNKNOWN)
              .setFullMethodName(name)
              .build();
      return ServerMethodDefinition.create(
          method,
          (call, headers) -> {
            String text = "no service here has /" + name;
            ArchonException error = ArchonException.of(Reasons.NOT_SERVED, text).metadata("method", "/" + name).build();
            call.close(Failures.toException(error).getStatus(), Failures.trailers(error));
            return new ServerCall.Listener<byte[]>() {};
          });
    }
  }

  /** Messages that are not decoded. */
  public static final class RawBytes implements MethodDescriptor.Marshaller<byte[]> {
    /** The marshaller. */
    public static final RawBytes MARSHALLER = new RawBytes();

    @Override
    public InputStream stream(byte[] value) {
      return new java.io.ByteArrayInputStream(value);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException error) {
        throw io.grpc.Status.INTERNAL.withCause(error).asRuntimeException(new Metadata());
      }
    }
  }
}
