package dev.archon.sdk;

import dev.archon.api.common.v1.Decision;
import dev.archon.api.orchestrator.v1.CancelRunRequest;
import dev.archon.api.orchestrator.v1.EditPlanRequest;
import dev.archon.api.orchestrator.v1.ForkRunRequest;
import dev.archon.api.orchestrator.v1.GetRunRequest;
import dev.archon.api.orchestrator.v1.GetRunResponse;
import dev.archon.api.orchestrator.v1.ListQuestionsRequest;
import dev.archon.api.orchestrator.v1.ListQuestionsResponse;
import dev.archon.api.orchestrator.v1.ListRunsRequest;
import dev.archon.api.orchestrator.v1.ListRunsResponse;
import dev.archon.api.orchestrator.v1.OrchestratorServiceGrpc;
import dev.archon.api.orchestrator.v1.PauseRunRequest;
import dev.archon.api.orchestrator.v1.PlanRunRequest;
import dev.archon.api.orchestrator.v1.RateRunRequest;
import dev.archon.api.orchestrator.v1.RespondRequest;
import dev.archon.api.orchestrator.v1.ResumeRunRequest;
import dev.archon.sdk.channel.Calls;
import dev.archon.sdk.channel.CertificateFolder;
import dev.archon.sdk.channel.Channels;
import dev.archon.sdk.channel.Credentials;
import dev.archon.sdk.channel.Environment;
import dev.archon.sdk.channel.Peer;
import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.Plan;
import dev.archon.sdk.types.Run;
import dev.archon.sdk.types.TaskState;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/**
 * A connection to an orchestrator at host:port, made at the first call. For any thread; close it.
 *
 * <p>Calls throw the error that the server raised, or UNAVAILABLE or DEADLINE_EXCEEDED if it is unreachable. They present the token of this
 * process or of the mesh on this machine; with a certificate, connections are encrypted. Interrupting the thread cancels the call.
 */
public final class Client implements AutoCloseable {
  private static final double CALL_TIMEOUT = 10.0;
  private static final double PLAN_TIMEOUT = 60.0;
  private static final double EDIT_TIMEOUT = 15.0;
  private static final double CANCEL_TIMEOUT = 2.0;

  private final ManagedChannel channel;

  /** Connects with the credentials and the certificate that the environment gives. */
  public Client(String target) {
    this(target, Environment.own(), null, null);
  }

  /** Connects with these credentials and this certificate; null for the own ones. */
  public Client(String target, Environment environment, Credentials credentials, CertificateFolder certificate) {
    channel = Channels.connect(target, Peer.ORCHESTRATOR, environment, credentials, certificate);
  }

  private <Q, R> R call(MethodDescriptor<Q, R> method, Q request, double seconds) throws InterruptedException {
    return Calls.unary(channel, method, request, seconds);
  }

  /** Submits a run with a text as its goal, which is durable when this returns. */
  public RunHandle submit(String goal) throws InterruptedException {
    return submit(Submission.of(goal));
  }

  /**
   * Submits a run, which is durable when this returns. A repeated call with the same {@link Submission} is the same run. Throws EMPTY_GOAL,
   * UNKNOWN_ROLE, UNKNOWN_CAPABILITY, REQUEST_ID_REUSED, RESOURCE_EXHAUSTED.
   */
  public RunHandle submit(Submission submission) throws InterruptedException {
    return Calls.await(submitAsync(submission));
  }

  /** Submits as {@link #submit(Submission)}, without waiting. Cancelling the future does not end a run that was accepted. */
  public CompletableFuture<RunHandle> submitAsync(Submission submission) {
    double seconds = CALL_TIMEOUT + submission.waitSeconds();
    return Calls.unaryAsync(channel, OrchestratorServiceGrpc.getSubmitRunMethod(), submission.proto(), seconds)
        .thenApply(response -> new RunHandle(this, new Run(response.getRun())));
  }

  /** Submits a run, waits for its end, and returns its answer. Throws the run's failure. */
  public String run(String goal) throws InterruptedException {
    return run(Submission.of(goal));
  }

  /** Submits a run, waits for its end, and returns its answer. If the thread is interrupted meanwhile, the run is cancelled. */
  public String run(Submission submission) throws InterruptedException {
    CompletableFuture<RunHandle> submitting = submitAsync(submission);
    Run run;
    try {
      RunHandle handle = Calls.await(submitting);
      run = waitFor(handle.runId(), Double.MAX_VALUE);
    } catch (InterruptedException interrupted) {
      abandon(submitting);
      throw interrupted;
    } catch (ArchonException error) {
      if (error.is(Reasons.CANCELLED) || error.is(Reasons.DEADLINE_EXCEEDED)) {
        abandon(submitting);
      }
      throw error;
    }
    if (run.state() != TaskState.COMPLETED) {
      throw Failures.fromFailure(run.proto().getFailure());
    }
    return run.text();
  }

  /** Requests the cancellation of a run that nobody waits for any more; its own time limit ends it if that fails. */
  private void abandon(CompletableFuture<RunHandle> submitting) {
    submitting.thenAccept(
        handle ->
            Context.ROOT.run(
                () -> {
                  CancelRunRequest request =
                      CancelRunRequest.newBuilder().setRunId(handle.runId()).setReason("its caller was cancelled").build();
                  Calls.unaryAsync(channel, OrchestratorServiceGrpc.getCancelRunMethod(), request, CANCEL_TIMEOUT);
                }));
  }

  /** Waits until a run has ended, in whatever state. Throws DEADLINE_EXCEEDED after so many seconds, and UNKNOWN_RUN. */
  public Run waitFor(String runId, double seconds) throws InterruptedException {
    CallContext call = CallContext.current();
    double end = System.nanoTime() / 1e9 + Math.min(seconds, call.remaining().orElse(Double.MAX_VALUE));
    Context within = Context.current();
    if (seconds < Double.MAX_VALUE) {
      CallContext bounded =
          new CallContext(
              CallContext.until(end), call.trace(), call.runId(), call.taskId(), call.attempt(), call.role(), call.principal());
      within = within.withValue(CallContext.KEY, bounded);
    }
    Context previous = within.attach();
    try (RunWatch watch = new RunWatch(channel, runId, 0, true)) {
      while (watch.hasNext()) {
        watch.next();
      }
    } catch (ArchonException error) {
      if (error.is(Reasons.CANCELLED) && Thread.interrupted()) {
        throw new InterruptedException("the wait was interrupted");
      }
      throw error;
    } finally {
      within.detach(previous);
    }
    return get(runId);
  }

  /** Returns the events of a run after a number, from the first one on if that is 0. Close the watch. */
  public RunWatch watch(String runId, long afterSeq) {
    return new RunWatch(channel, runId, afterSeq, false);
  }

  /** Opens one stream for many runs. Close it. */
  public ConverseStream converse() {
    return new ConverseStream(channel);
  }

  /** Returns the current state of a run. Throws UNKNOWN_RUN. */
  public Run get(String runId) throws InterruptedException {
    GetRunRequest request = GetRunRequest.newBuilder().setRunId(runId).build();
    GetRunResponse response = call(OrchestratorServiceGrpc.getGetRunMethod(), request, CALL_TIMEOUT);
    return new Run(response.getRun());
  }

  /** Returns the newest runs first, at most {@code limit}, of one session unless that is empty, without tasks and answers. */
  public List<Run> listRuns(int limit, String sessionId) throws InterruptedException {
    List<Run> runs = new ArrayList<>();
    String page = "";
    do {
      ListRunsRequest request =
          ListRunsRequest.newBuilder()
              .setPageSize(Math.min(1_000, limit - runs.size()))
              .setPageToken(page)
              .setSessionId(sessionId)
              .build();
      ListRunsResponse response = call(OrchestratorServiceGrpc.getListRunsMethod(), request, CALL_TIMEOUT);
      response.getRunsList().forEach(run -> runs.add(new Run(run)));
      page = response.getNextPageToken();
    } while (!page.isEmpty() && runs.size() < limit);
    return runs;
  }

  /** Returns the open questions of all runs to people, those of the newest run first. */
  public List<Run.RunQuestion> listQuestions() throws InterruptedException {
    List<Run.RunQuestion> questions = new ArrayList<>();
    String page = "";
    do {
      ListQuestionsRequest request = ListQuestionsRequest.newBuilder().setPageSize(1_000).setPageToken(page).build();
      ListQuestionsResponse response = call(OrchestratorServiceGrpc.getListQuestionsMethod(), request, CALL_TIMEOUT);
      response.getQuestionsList().forEach(question -> questions.add(Run.question(question)));
      page = response.getNextPageToken();
    } while (!page.isEmpty());
    return questions;
  }

  /** Requests that a run be cancelled; it has ended once its state is final. Throws UNKNOWN_RUN. */
  public Run cancel(String runId, String reason) throws InterruptedException {
    CancelRunRequest request = CancelRunRequest.newBuilder().setRunId(runId).setReason(reason).build();
    return new Run(call(OrchestratorServiceGrpc.getCancelRunMethod(), request, CALL_TIMEOUT).getRun());
  }

  /** Pauses a run: no further tasks are dispatched until {@link #resume}. Throws UNKNOWN_RUN, FAILED_PRECONDITION. */
  public Run pause(String runId) throws InterruptedException {
    PauseRunRequest request = PauseRunRequest.newBuilder().setRunId(runId).build();
    return new Run(call(OrchestratorServiceGrpc.getPauseRunMethod(), request, CALL_TIMEOUT).getRun());
  }

  /** Resumes a paused run. Throws as {@link #pause} does. */
  public Run resume(String runId) throws InterruptedException {
    ResumeRunRequest request = ResumeRunRequest.newBuilder().setRunId(runId).build();
    return new Run(call(OrchestratorServiceGrpc.getResumeRunMethod(), request, CALL_TIMEOUT).getRun());
  }

  /** Answers a question of a run. Repeating the same answer is no error. Throws UNKNOWN_RUN, FAILED_PRECONDITION, INVALID_ARGUMENT. */
  public Run respond(String runId, String inputId, String answer) throws InterruptedException {
    return respond(runId, inputId, Submission.content(answer, "the answer"), "");
  }

  /** Decides an approval: {@code approve}, {@code reject} or {@code modify}, with its reason or the replacement. */
  public Run decide(String runId, String inputId, String decision, List<Part> parts) throws InterruptedException {
    if (!List.of("approve", "reject", "modify").contains(decision)) {
      throw ArchonException.invalid("decision", "unknown decision '" + decision + "'; use approve, reject or modify");
    }
    return respond(runId, inputId, Submission.content(parts, "the answer"), decision);
  }

  private Run respond(String runId, String inputId, List<dev.archon.api.common.v1.Part> parts, String decision)
      throws InterruptedException {
    RespondRequest.Builder request =
        RespondRequest.newBuilder().setRunId(runId).setInputId(inputId).addAllParts(parts);
    if (!decision.isEmpty()) {
      request.setDecision(Decision.valueOf("DECISION_" + decision.toUpperCase(Locale.ROOT)));
    }
    return new Run(call(OrchestratorServiceGrpc.getRespondMethod(), request.build(), CALL_TIMEOUT).getRun());
  }

  /** Forks a run: its answers up to event {@code afterSeq} (0: all) are kept, its other tasks are executed anew. */
  public RunHandle fork(String runId, long afterSeq) throws InterruptedException {
    return fork(runId, afterSeq, List.of());
  }

  /** Forks a run with another goal; empty: the same one. Throws UNKNOWN_RUN, RUN_EXPIRED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
  public RunHandle fork(String runId, long afterSeq, List<Part> goal) throws InterruptedException {
    ForkRunRequest request =
        ForkRunRequest.newBuilder()
            .setRequestId(UUID.randomUUID().toString().replace("-", ""))
            .setRunId(runId)
            .setAfterSeq(afterSeq)
            .addAllGoal(Submission.content(goal, "the goal"))
            .build();
    return new RunHandle(this, new Run(call(OrchestratorServiceGrpc.getForkRunMethod(), request, CALL_TIMEOUT).getRun()));
  }

  /** Returns the plan that a run with the strategy PLAN would begin with. Nothing is stored or executed. Throws PLAN_FAILED. */
  public Plan plan(Submission submission) throws InterruptedException {
    PlanRunRequest request =
        PlanRunRequest.newBuilder().setSubmit(submission.strategy(Strategy.PLAN).proto()).build();
    return new Plan(call(OrchestratorServiceGrpc.getPlanRunMethod(), request, PLAN_TIMEOUT).getPlan());
  }

  /** Replaces the steps of a run's plan that have not begun. Throws ABORTED if the plan has changed since {@code expectedSeq}. */
  public Run editPlan(String runId, String planJson, long expectedSeq) throws InterruptedException {
    EditPlanRequest request =
        EditPlanRequest.newBuilder().setRunId(runId).setPlanJson(planJson).setExpectedSeq(expectedSeq).build();
    return new Run(call(OrchestratorServiceGrpc.getEditPlanMethod(), request, EDIT_TIMEOUT).getRun());
  }

  /** Rates a run that has ended, from 1 (bad) to 5 (good) stars. */
  public void rate(String runId, int stars, String comment) throws InterruptedException {
    RateRunRequest request = RateRunRequest.newBuilder().setRunId(runId).setStars(stars).setComment(comment).build();
    call(OrchestratorServiceGrpc.getRateRunMethod(), request, CALL_TIMEOUT);
  }

  /** Closes the connection. Idempotent. */
  @Override
  public void close() {
    Channels.close(channel);
  }
}
