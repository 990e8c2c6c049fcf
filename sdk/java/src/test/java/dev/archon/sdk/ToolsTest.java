package dev.archon.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.archon.api.tool.v1.ExecuteToolRequest;
import dev.archon.api.tool.v1.LeaseToolRequest;
import dev.archon.api.tool.v1.RevokeLeaseRequest;
import dev.archon.api.tool.v1.ToolServiceGrpc;
import dev.archon.sdk.agent.AgentServer;
import dev.archon.sdk.agent.AgentSettings;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.tools.SharedTool;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Shared tools (contract rule 14), by the calls of the contract. */
@Timeout(20)
class ToolsTest {
  private static final String SCHEMA = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}";

  private final AtomicInteger calls = new AtomicInteger();
  private final CountDownLatch begun = new CountDownLatch(1);
  private AgentServer server;
  private ManagedChannel channel;
  private ToolServiceGrpc.ToolServiceBlockingStub stub;

  @BeforeEach
  void serve() throws Exception {
    SharedTool add =
        SharedTool.of(
            Tool.of("add", "Adds one.", SCHEMA),
            (arguments, call) -> {
              calls.incrementAndGet();
              call.report("half way");
              return "41";
            });
    SharedTool slow =
        SharedTool.of(
            Tool.of("slow", "Takes long.", ""),
            (arguments, call) -> {
              begun.countDown();
              Thread.sleep(10_000);
              return "1";
            });
    server =
        AgentServer.builder("owner")
            .handler(task -> "x")
            .sharedTool(add)
            .sharedTool(slow)
            .settings(AgentSettings.local())
            .environment(new Environment(Map.of()))
            .build();
    server.start();
    channel = NettyChannelBuilder.forTarget(server.address()).usePlaintext().build();
    stub = ToolServiceGrpc.newBlockingStub(channel);
  }

  @AfterEach
  void stop() throws Exception {
    channel.shutdownNow();
    server.stop(0);
  }

  private String lease(String tool) {
    return stub.leaseTool(LeaseToolRequest.newBuilder().setToolName(tool).build()).getLease().getLeaseId();
  }

  private static ArchonException refused(Runnable call) {
    return Failures.of(assertThrows(StatusRuntimeException.class, call::run));
  }

  @Test
  @DisplayName("C14: a leased tool is executed here, and the same key has the same result without a second call")
  void c14SameKey() {
    var request =
        ExecuteToolRequest.newBuilder().setLeaseId(lease("add")).setArgumentsJson("{\"n\": 1}").setIdempotencyKey("k");
    for (int time = 0; time < 2; time++) {
      var events = stub.executeTool(request.build());
      var last = events.next();
      while (events.hasNext()) {
        last = events.next();
      }
      assertEquals("41", last.getResult().getContentJson());
    }
    assertEquals(1, calls.get());
    request.setArgumentsJson("{\"n\": 2}");
    assertEquals(Reasons.REQUEST_ID_REUSED, refused(() -> stub.executeTool(request.build()).next()).reason());
  }

  @Test
  @DisplayName("C14: arguments that do not match the schema are not executed")
  void c14Arguments() {
    var request = ExecuteToolRequest.newBuilder().setLeaseId(lease("add")).setArgumentsJson("{\"n\": \"one\"}").build();
    ArchonException error = refused(() -> stub.executeTool(request).next());
    assertEquals(Reasons.INVALID_ARGUMENT, error.reason());
    assertEquals("n", error.fieldViolations().get(0).field());
    assertEquals(0, calls.get());
  }

  @Test
  @DisplayName("C14: a revoked lease ends its call with LEASE_EXPIRED and begun: true")
  void c14Revoked() throws Exception {
    String lease = lease("slow");
    var events = stub.executeTool(ExecuteToolRequest.newBuilder().setLeaseId(lease).setArgumentsJson("{}").build());
    begun.await();
    stub.revokeLease(RevokeLeaseRequest.newBuilder().setLeaseId(lease).build());
    ArchonException error = refused(events::next);
    assertEquals(Reasons.LEASE_EXPIRED, error.reason());
    assertEquals("true", error.metadata().get("begun"));
  }

  @Test
  @DisplayName("C14: an unknown tool is NOT_FOUND, an unknown lease LEASE_EXPIRED")
  void c14Unknown() {
    assertEquals(Reasons.NOT_FOUND, refused(() -> lease("none")).reason());
    var request = ExecuteToolRequest.newBuilder().setLeaseId("none").build();
    assertEquals(Reasons.LEASE_EXPIRED, refused(() -> stub.executeTool(request).next()).reason());
  }
}
