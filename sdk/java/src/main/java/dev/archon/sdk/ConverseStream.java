package dev.archon.sdk;

import dev.archon.api.orchestrator.v1.CancelRunRequest;
import dev.archon.api.orchestrator.v1.ConverseReply;
import dev.archon.api.orchestrator.v1.ConverseRequest;
import dev.archon.api.orchestrator.v1.ConverseResponse;
import dev.archon.api.orchestrator.v1.OrchestratorServiceGrpc;
import dev.archon.api.orchestrator.v1.RespondRequest;
import dev.archon.api.orchestrator.v1.WatchRunRequest;
import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.types.Run;
import dev.archon.sdk.types.RunEvent;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Many runs on one stream: commands in one direction, the events of all runs in the other, in order per run. Any thread may send commands;
 * one takes events. It does not reconnect: if it breaks, {@link Client#watch} resumes each run after its last event.
 */
public final class ConverseStream implements AutoCloseable {
  private static final double COMMAND_TIMEOUT = 30.0;
  private static final int MAX_WAITING = 10_000;

  private final ClientCall<ConverseRequest, ConverseResponse> call;
  private final Map<String, CompletableFuture<Run>> commands = new HashMap<>();
  private final Deque<RunEvent> events = new ArrayDeque<>();
  private long number;
  private boolean isHalfClosed;
  private boolean isOver;
  private boolean isHeldBack;
  private ArchonException error;

  ConverseStream(Channel channel) {
    call = channel.newCall(OrchestratorServiceGrpc.getConverseMethod(), CallOptions.DEFAULT);
    call.start(
        new ClientCall.Listener<>() {
          @Override
          public void onMessage(ConverseResponse response) {
            received(response);
          }

          @Override
          public void onClose(Status status, Metadata trailers) {
            ended(status.isOk() ? null : Failures.fromStatus(status, trailers));
          }
        },
        new Metadata());
    call.request(1);
  }

  /** Submits a run and follows it. Throws the errors of {@link Client#submit(Submission)}. */
  public Run submit(Submission submission) throws InterruptedException {
    return Calls.await(submitAsync(submission));
  }

  /** Submits a run and follows it, without waiting for the reply. */
  public CompletableFuture<Run> submitAsync(Submission submission) {
    return command(ConverseRequest.newBuilder().setSubmit(submission.proto()));
  }

  /** Follows an existing run. Throws UNKNOWN_RUN. */
  public Run watch(String runId, long afterSeq) throws InterruptedException {
    WatchRunRequest request = WatchRunRequest.newBuilder().setRunId(runId).setAfterSeq(afterSeq).build();
    return Calls.await(command(ConverseRequest.newBuilder().setWatch(request)));
  }

  /** Requests that a run be cancelled. Throws UNKNOWN_RUN. */
  public Run cancel(String runId, String reason) throws InterruptedException {
    CancelRunRequest request = CancelRunRequest.newBuilder().setRunId(runId).setReason(reason).build();
    return Calls.await(command(ConverseRequest.newBuilder().setCancel(request)));
  }

  /** Answers a question of a run. */
  public Run respond(String runId, String inputId, String answer) throws InterruptedException {
    RespondRequest request =
        RespondRequest.newBuilder()
            .setRunId(runId)
            .setInputId(inputId)
            .addAllParts(Submission.content(answer, "the answer"))
            .build();
    return Calls.await(command(ConverseRequest.newBuilder().setRespond(request)));
  }

  private synchronized CompletableFuture<Run> command(ConverseRequest.Builder request) {
    if (isOver || isHalfClosed) {
      ArchonException why = error != null ? error : streamEnded();
      return CompletableFuture.failedFuture(why);
    }
    String id = Long.toString(++number);
    CompletableFuture<Run> reply = new CompletableFuture<>();
    commands.put(id, reply);
    call.sendMessage(request.setCorrelationId(id).build());
    String late = "no answer within " + COMMAND_TIMEOUT + " s";
    CompletableFuture<Run> bounded = reply.orTimeout((long) COMMAND_TIMEOUT, TimeUnit.SECONDS);
    bounded.whenComplete(
        (run, raised) -> {
          synchronized (this) {
            commands.remove(id);
          }
        });
    return bounded.exceptionallyCompose(
        raised ->
            CompletableFuture.failedFuture(
                raised instanceof java.util.concurrent.TimeoutException
                    ? ArchonException.of(Reasons.DEADLINE_EXCEEDED, late).build()
                    : raised));
  }

  private static ArchonException streamEnded() {
    return ArchonException.of(Reasons.UNAVAILABLE, "the Converse stream has ended").build();
  }

  private void received(ConverseResponse response) {
    for (ConverseReply reply : response.getRepliesList()) {
      CompletableFuture<Run> command;
      synchronized (this) {
        command = commands.get(reply.getCorrelationId());
      }
      if (command != null && reply.hasFailure()) {
        command.completeExceptionally(Failures.fromFailure(reply.getFailure()));
      } else if (command != null) {
        command.complete(new Run(reply.getRun()));
      }
    }
    synchronized (this) {
      response.getEventsList().forEach(event -> events.add(new RunEvent(event)));
      isHeldBack = events.size() >= MAX_WAITING;
      notifyAll();
      if (isHeldBack) {
        return;
      }
    }
    call.request(1);
  }

  private void ended(ArchonException why) {
    List<CompletableFuture<Run>> left;
    synchronized (this) {
      isOver = true;
      error = why;
      left = List.copyOf(commands.values());
      notifyAll();
    }
    left.forEach(command -> command.completeExceptionally(why != null ? why : streamEnded()));
  }

  /** Returns the next event of the followed runs, and waits for it; null after the last one. Throws the error of the stream. */
  public RunEvent next() throws InterruptedException {
    RunEvent event;
    boolean goesOn = false;
    synchronized (this) {
      while (events.isEmpty() && !isOver) {
        wait();
      }
      event = events.poll();
      if (event == null && error != null) {
        throw error;
      }
      if (isHeldBack && events.size() < MAX_WAITING / 2) {
        isHeldBack = false;
        goesOn = true;
      }
    }
    if (goesOn) {
      call.request(1);
    }
    return event;
  }

  /** Ends the commands: the stream ends after the last event of the followed runs. */
  public synchronized void done() {
    if (!isHalfClosed && !isOver) {
      isHalfClosed = true;
      call.halfClose();
    }
  }

  /** Ends the stream; the runs go on. Idempotent. */
  @Override
  public void close() {
    call.cancel("the stream is not needed any more", null);
  }
}
