package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.AgentServiceGrpc;
import dev.archon.api.agent.v1.DeliverRequest;
import dev.archon.api.agent.v1.DeliverResponse;
import dev.archon.api.agent.v1.DescribeRequest;
import dev.archon.api.agent.v1.DescribeResponse;
import dev.archon.api.agent.v1.RunTaskRequest;
import dev.archon.api.agent.v1.RunTaskResponse;
import dev.archon.sdk.channel.MeshServer.RawBytes;
import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.internal.Frames;
import dev.archon.sdk.registry.Convert;
import dev.archon.sdk.registry.Registration;
import io.grpc.MethodDescriptor;
import io.grpc.ServerMethodDefinition;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServiceDescriptor;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/** AgentService over gRPC. The messages of sessions are not decoded here, so that a broken frame affects no other. */
final class AgentService extends AgentServiceGrpc.AgentServiceImplBase {
  private final AgentCore agent;
  private final Supplier<Registration> registration;
  private final DirectInbox direct;

  AgentService(AgentCore agent, Supplier<Registration> registration, DirectInbox direct) {
    this.agent = agent;
    this.registration = registration;
    this.direct = direct;
  }

  /** Returns the service with raw messages in sessions. */
  ServerServiceDefinition definition() {
    MethodDescriptor<byte[], byte[]> session =
        AgentServiceGrpc.getSessionMethod().toBuilder(RawBytes.MARSHALLER, RawBytes.MARSHALLER).build();
    ServiceDescriptor generated = AgentServiceGrpc.getServiceDescriptor();
    ServiceDescriptor.Builder described = ServiceDescriptor.newBuilder(generated.getName());
    described.setSchemaDescriptor(generated.getSchemaDescriptor()); // for reflection
    generated.getMethods().forEach(method -> described.addMethod(isSession(method) ? session : method));
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(described.build());
    for (ServerMethodDefinition<?, ?> method : bindService().getMethods()) {
      if (isSession(method.getMethodDescriptor())) {
        service.addMethod(session, ServerCalls.asyncBidiStreamingCall(this::serveSession));
      } else {
        service.addMethod(method);
      }
    }
    return service.build();
  }

  private static boolean isSession(MethodDescriptor<?, ?> method) {
    return method.getFullMethodName().equals(AgentServiceGrpc.getSessionMethod().getFullMethodName());
  }

  private StreamObserver<byte[]> serveSession(StreamObserver<byte[]> responses) {
    ServerCallStreamObserver<byte[]> out = (ServerCallStreamObserver<byte[]>) responses;
    ServedStream stream = new ServedStream(agent, out);
    out.disableAutoRequest();
    out.setOnReadyHandler(stream::ready);
    out.setOnCancelHandler(stream::gone);
    out.setOnCloseHandler(stream::gone);
    out.request(1);
    return stream;
  }

  @Override
  public void describe(DescribeRequest request, StreamObserver<DescribeResponse> responses) {
    try {
      int running = agent.loop().call(() -> agent.attempts().working()).get(5, TimeUnit.SECONDS);
      responses.onNext(
          DescribeResponse.newBuilder()
              .setRegistration(Convert.toProto(registration.get()))
              .addProtocols(AgentSession.PROTOCOL)
              .addAllFeatures(Frames.FEATURES)
              .addInputModes("text/plain")
              .addOutputModes("text/plain")
              .setRunningTasks(running)
              .build());
      responses.onCompleted();
    } catch (InterruptedException | ExecutionException | TimeoutException stopping) {
      responses.onError(Failures.toException(ArchonException.of(io.grpc.Status.Code.UNAVAILABLE, "it stops").build()));
    }
  }

  @Override
  public void deliver(DeliverRequest request, StreamObserver<DeliverResponse> responses) {
    DeliverResponse response;
    try {
      response = direct.deliver(request, CallContext.current().principal());
    } catch (ArchonException refused) {
      responses.onError(Failures.toException(refused));
      return;
    }
    responses.onNext(response);
    responses.onCompleted();
  }

  @Override
  public void runTask(RunTaskRequest request, StreamObserver<RunTaskResponse> responses) {
    ServerCallStreamObserver<RunTaskResponse> out = (ServerCallStreamObserver<RunTaskResponse>) responses;
    RunTaskCall call = new RunTaskCall(agent, out);
    out.setOnReadyHandler(call::ready);
    out.setOnCancelHandler(call::gone);
    CompletableFuture<Boolean> begun = agent.loop().call(() -> call.begin(request.getTask()));
    begun.whenComplete(
        (done, error) -> {
          if (error != null) {
            out.onError(Failures.toException(Failures.of(error)));
          }
        });
  }
}
