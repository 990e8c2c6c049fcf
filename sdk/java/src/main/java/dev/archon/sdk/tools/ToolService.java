package dev.archon.sdk.tools;

import dev.archon.api.tool.v1.ExecuteToolRequest;
import dev.archon.api.tool.v1.ExecuteToolResponse;
import dev.archon.api.tool.v1.LeaseToolRequest;
import dev.archon.api.tool.v1.LeaseToolResponse;
import dev.archon.api.tool.v1.ListToolsRequest;
import dev.archon.api.tool.v1.ListToolsResponse;
import dev.archon.api.tool.v1.RevokeLeaseRequest;
import dev.archon.api.tool.v1.RevokeLeaseResponse;
import dev.archon.api.tool.v1.ToolResult;
import dev.archon.api.tool.v1.ToolServiceGrpc;
import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.context.TraceContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.registry.Convert;
import dev.archon.sdk.registry.Tool;
import dev.archon.sdk.types.TaskRef;
import io.grpc.Context;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Scope;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.OptionalDouble;
import java.util.concurrent.Callable;

/** ToolService over gRPC. */
public final class ToolService extends ToolServiceGrpc.ToolServiceImplBase {
  private static final int PAGE = 100;
  private static final int MAX_PAGE = 1_000;
  private static final int MAX_ID = 128;

  private final ToolOwner tools;
  private final OpenTelemetry telemetry;

  ToolService(ToolOwner tools, OpenTelemetry telemetry) {
    this.tools = tools;
    this.telemetry = telemetry;
  }

  private static <T> void respond(StreamObserver<T> responses, Callable<T> work) {
    T response;
    try {
      response = work.call();
    } catch (Exception raised) {
      responses.onError(Failures.toException(Failures.of(raised)));
      return;
    }
    responses.onNext(response);
    responses.onCompleted();
  }

  @Override
  public void listTools(ListToolsRequest request, StreamObserver<ListToolsResponse> responses) {
    respond(responses, () -> list(request));
  }

  private ListToolsResponse list(ListToolsRequest request) {
    int size = request.getPageSize() == 0 ? PAGE : request.getPageSize();
    if (size < 1 || size > MAX_PAGE) {
      throw ArchonException.invalid("page_size", "must be 1 to 1,000; 0 means " + PAGE);
    }
    String after;
    try {
      after = new String(Base64.getUrlDecoder().decode(request.getPageToken()), StandardCharsets.UTF_8);
    } catch (IllegalArgumentException malformed) {
      throw ArchonException.of(Reasons.INVALID_PAGE_TOKEN, "page_token does not belong to this list").build();
    }
    List<Tool> found = tools.advertised().stream().filter(tool -> tool.name().compareTo(after) > 0).toList();
    ListToolsResponse.Builder response = ListToolsResponse.newBuilder();
    found.stream().limit(size).forEach(tool -> response.addTools(Convert.toProto(tool)));
    if (found.size() > size) {
      byte[] last = found.get(size - 1).name().getBytes(StandardCharsets.UTF_8);
      response.setNextPageToken(Base64.getUrlEncoder().encodeToString(last));
    }
    return response.build();
  }

  @Override
  public void leaseTool(LeaseToolRequest request, StreamObserver<LeaseToolResponse> responses) {
    respond(responses, () -> lease(request));
  }

  private LeaseToolResponse lease(LeaseToolRequest request) {
    checkId("tool_name", request.getToolName());
    checkId("instance_id", request.getInstanceId());
    checkId("task.task_id", request.getTask().getTaskId());
    checkId("task.run_id", request.getTask().getRunId());
    double seconds = request.hasDuration() ? Wire.seconds(request.getDuration()) : LeaseTable.LEASE_SECONDS;
    TaskRef task = request.getTask().getTaskId().isEmpty() ? null : TaskRef.of(request.getTask());
    Lease lease = tools.lease(request.getToolName(), seconds, task, request.getInstanceId());
    double granted = Math.min(seconds, LeaseTable.MAX_LEASE_SECONDS);
    LeaseToolResponse.Builder response = LeaseToolResponse.newBuilder();
    response.getLeaseBuilder()
        .setLeaseId(lease.id)
        .setToolName(lease.toolName)
        .setExpireTime(Wire.timestamp(System.currentTimeMillis() / 1000.0 + granted))
        .setMaxCallsPerMinute(tools.advertised().stream()
            .filter(tool -> tool.name().equals(lease.toolName))
            .mapToInt(tool -> tool.share().maxCallsPerMinute())
            .findFirst()
            .orElse(0));
    return response.build();
  }

  private static void checkId(String field, String value) {
    if (Texts.characters(value) > MAX_ID) {
      throw ArchonException.invalid(field, "must have at most " + MAX_ID + " characters");
    }
  }

  @Override
  public void revokeLease(RevokeLeaseRequest request, StreamObserver<RevokeLeaseResponse> responses) {
    tools.revokeLease(request.getLeaseId(), false);
    responses.onNext(RevokeLeaseResponse.getDefaultInstance());
    responses.onCompleted();
  }

  @Override
  public void executeTool(ExecuteToolRequest request, StreamObserver<ExecuteToolResponse> responses) {
    Caller caller = new Caller((ServerCallStreamObserver<ExecuteToolResponse>) responses);
    OptionalDouble seconds =
        request.hasTimeout() ? OptionalDouble.of(Wire.seconds(request.getTimeout())) : OptionalDouble.empty();
    CallContext served = CallContext.current();
    if (!request.getTrace().getTraceparent().isEmpty()) {
      served = served.withTrace(new TraceContext(request.getTrace().getTraceparent(), request.getTrace().getTracestate()));
    }
    try {
      caller.execution =
          Context.current()
              .withValue(CallContext.KEY, served)
              .call(
                  () ->
                      tools.execute(
                          request.getLeaseId(), request.getArgumentsJson(), seconds, request.getIdempotencyKey(), caller));
    } catch (Exception refused) {
      responses.onError(Failures.toException(Failures.of(refused)));
      return;
    }
    caller.begun();
  }

  /** A caller that waits for an execution. A caller that leaves cancels it, unless another one waits for the same call. */
  private static final class Caller implements Execution.Listener {
    private final ServerCallStreamObserver<ExecuteToolResponse> out;
    private Execution execution;
    private boolean isOver;

    Caller(ServerCallStreamObserver<ExecuteToolResponse> out) {
      this.out = out;
      out.setOnCancelHandler(this::gone);
    }

    private synchronized void gone() {
      isOver = true;
      if (execution != null) {
        execution.leave(this);
      }
    }

    synchronized void begun() {
      if (isOver && execution != null) {
        execution.leave(this);
      }
    }

    @Override
    public synchronized void progress(String text) {
      if (!isOver && out.isReady()) { // a slow caller loses progress
        out.onNext(ExecuteToolResponse.newBuilder().setProgress(text).build());
      }
    }

    @Override
    public synchronized void done(ToolResult result, ArchonException error) {
      if (isOver) {
        return;
      }
      isOver = true;
      if (error != null) {
        out.onError(Failures.toException(error));
      } else {
        out.onNext(ExecuteToolResponse.newBuilder().setResult(result).build());
        out.onCompleted();
      }
    }
  }

  /** Returns the call with a span around it. */
  Callable<String> traced(Lease lease, Callable<String> call, TraceContext trace) {
    SpanContext parent = trace.remote();
    if (!parent.isValid()) {
      return call;
    }
    return () -> {
      Span span =
          telemetry
              .getTracer("archon")
              .spanBuilder("execute_tool " + lease.toolName)
              .setParent(io.opentelemetry.context.Context.root().with(Span.wrap(parent)))
              .setSpanKind(SpanKind.SERVER)
              .setAttribute("gen_ai.operation.name", "execute_tool")
              .setAttribute("gen_ai.tool.name", lease.toolName)
              .startSpan();
      if (lease.task != null) {
        span.setAttribute("archon.run.id", lease.task.runId());
        span.setAttribute("archon.task.id", lease.task.taskId());
        span.setAttribute("archon.task.attempt", (long) lease.task.attempt());
      }
      try (Scope scope = span.makeCurrent()) {
        assert scope != null;
        return call.call();
      } catch (Exception raised) {
        ArchonException error = Failures.of(raised, "tool.crash");
        span.setAttribute("error.type", error.reason());
        span.setStatus(StatusCode.ERROR, String.valueOf(error.getMessage()));
        throw error;
      } finally {
        span.end();
      }
    };
  }
}
