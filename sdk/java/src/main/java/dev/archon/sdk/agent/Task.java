package dev.archon.sdk.agent;

import com.google.protobuf.ByteString;
import dev.archon.api.agent.v1.AssignTask;
import dev.archon.api.agent.v1.BudgetGrant;
import dev.archon.api.agent.v1.CallRecord;
import dev.archon.api.agent.v1.Checkpoint;
import dev.archon.api.agent.v1.Delegate;
import dev.archon.api.agent.v1.InputRequest;
import dev.archon.api.agent.v1.Progress;
import dev.archon.api.agent.v1.Publish;
import dev.archon.api.agent.v1.RecordKind;
import dev.archon.api.agent.v1.ToolEvent;
import dev.archon.api.common.v1.MemoryRef;
import dev.archon.api.common.v1.TaskRef;
import dev.archon.sdk.context.CallContext;
import dev.archon.sdk.context.TraceContext;
import dev.archon.sdk.SecretAnswers;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.Budget;
import dev.archon.sdk.types.Message;
import dev.archon.sdk.types.MessageType;
import dev.archon.sdk.types.Part;
import dev.archon.sdk.types.Usage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * One attempt at one task: its {@linkplain TaskInput assignment}, and the handler's way to the orchestrator.
 *
 * <p>Methods may be called by any thread. Those that wait throw {@link InterruptedException} if the task is cancelled, because the
 * thread of the handler is interrupted then; let it pass. gRPC calls that the handler makes carry the deadline and the trace of the
 * task, and end with it.
 */
public final class Task extends TaskMessages {
  private static final int MAX_DELTA_CHARS = 16 * 1024;
  private static final int MAX_INPUT_ID = 256;
  private static final int MAX_SHOWN_BYTES = 64 * 1024;

  private final AttemptLink link;
  private final AttemptBudget budget;
  private final AtomicInteger delegations = new AtomicInteger();
  private final AtomicInteger questions = new AtomicInteger();
  private final List<CallRecord> records = new ArrayList<>();
  private Usage usage = Usage.NONE;
  private long offset;

  Task(TaskRef ref, AssignTask assigned, AttemptLink link, String role, boolean isStateful) {
    super(ref, assigned, link, role, isStateful);
    this.link = link;
    this.budget = new AttemptBudget(assigned.getBudget(), assigned.hasBudget());
  }

  CallContext callContext() {
    return new CallContext(this::remaining, trace(), runId(), taskId(), attempt(), role(), null);
  }

  List<MemoryRef> usedRefs() {
    return contextMessages().stream().map(dev.archon.api.common.v1.ContextItem::getRef).toList();
  }

  synchronized dev.archon.api.common.v1.Usage usageMessage() {
    return usage.proto();
  }

  List<CallRecord> takeRecords() {
    synchronized (records) {
      List<CallRecord> taken = List.copyOf(records);
      records.clear();
      return taken;
    }
  }

  // Progress

  /** Streams more of the answer's text to watchers. It may be dropped under load; the answer itself is not. */
  public void write(String text) {
    String whole = Texts.clean(text);
    for (int start = 0; start < whole.length(); ) {
      int end = cut(whole, start);
      String delta = whole.substring(start, end);
      synchronized (this) {
        link.report(working().setOffset(offset).setText(delta).build());
        offset += Texts.bytes(delta);
      }
      start = end;
    }
  }

  /** Streams more of a model's thinking to watchers. It is not part of the answer, and is not stored. */
  public void think(String text) {
    String whole = Texts.clean(text);
    for (int start = 0; start < whole.length(); ) {
      int end = cut(whole, start);
      link.report(working().setThinking(whole.substring(start, end)).build());
      start = end;
    }
  }

  private static int cut(String text, int start) {
    int end = Math.min(text.length(), start + MAX_DELTA_CHARS);
    return end < text.length() && Character.isHighSurrogate(text.charAt(end - 1)) ? end - 1 : end;
  }

  private static Progress.Builder working() {
    return Progress.newBuilder().setState(dev.archon.api.common.v1.TaskState.TASK_STATE_WORKING);
  }

  /** Shows watchers that a tool is called; may be dropped under load. */
  public void showToolCall(String callId, String tool, String argumentsJson) {
    show(ToolEvent.newBuilder().setCallId(callId).setToolName(tool).setArgumentsJson(Texts.clean(argumentsJson)));
  }

  /** Shows watchers the result of a tool call; may be dropped under load. */
  public void showToolResult(String callId, String tool, String resultJson, boolean failed) {
    String result = Texts.clean(resultJson);
    show(ToolEvent.newBuilder().setCallId(callId).setToolName(tool).setResultJson(result).setFailed(failed));
  }

  private void show(ToolEvent.Builder event) {
    Progress progress = working().setToolEvent(event).build();
    if (progress.getSerializedSize() <= MAX_SHOWN_BYTES) {
      link.report(progress);
    }
  }

  /**
   * Saves bytes from which a later attempt can resume, as its {@link #checkpoint}; the newest one counts. Does nothing if the
   * orchestrator does not support checkpoints. Throws FRAME_TOO_LARGE above 1 MiB, or above the orchestrator's limit.
   */
  public void save(byte[] checkpoint) throws InterruptedException {
    ByteString data = ByteString.copyFrom(Results.checkedCheckpoint(checkpoint));
    link.save(Checkpoint.newBuilder().setData(data).build());
  }

  /**
   * Publishes an item before the answer, which replaces it: roles that depend on this one and work at the same time receive it at
   * once. Throws INVALID_ARGUMENT for an item without text, FRAME_TOO_LARGE, NOT_SERVED if the orchestrator does not support it,
   * RESOURCE_EXHAUSTED if 8 MiB wait to be stored.
   */
  public void publish(Item item) throws InterruptedException {
    List<dev.archon.api.common.v1.Part> parts = item.messages();
    if (Wire.textOf(parts).isBlank()) {
      throw ArchonException.of(Reasons.INVALID_ARGUMENT, "an item to publish needs a text").build();
    }
    link.publish(
        Publish.newBuilder().addAllParts(parts).setPolicy(item.policy().proto()).putAllMetadata(item.metadata()).build());
  }

  /** Publishes a text for every edge. */
  public void publish(String text) throws InterruptedException {
    publish(Item.of(text));
  }

  // Delegation

  /**
   * Delegates a part of this task, and returns the answer. Throws the failure of the other role as the error that was raised there;
   * UNKNOWN_ROLE, UNKNOWN_CAPABILITY, DELEGATION_LOOP, DELEGATION_TOO_DEEP, DELEGATION_TIMEOUT, TOO_MANY_DELEGATIONS,
   * BUDGET_EXHAUSTED; FRAME_TOO_LARGE; NOT_SERVED if the caller of this task does not support delegations.
   */
  public Delegated delegate(Delegation delegation) throws InterruptedException {
    return Waits.await(delegateAsync(delegation));
  }

  /** Delegates to a role, and returns the answer. */
  public Delegated delegate(String role, String text) throws InterruptedException {
    return delegate(Delegation.to(role, text));
  }

  /** Delegates as {@link #delegate}, without waiting. Cancelling the future cancels the delegated work. */
  public CompletableFuture<Delegated> delegateAsync(Delegation delegation) {
    if (delegation.role().isEmpty() == delegation.capability().isEmpty()) {
      String text = "a delegation names either a role or a capability";
      throw ArchonException.of(Reasons.INVALID_ARGUMENT, text).build();
    }
    Delegate.Builder message =
        Delegate.newBuilder()
            .setDelegationId("d" + delegations.incrementAndGet())
            .addAllInput(Part.messages(delegation.input()))
            .setMemoKey(Texts.clean(delegation.memoKey()))
            .setCheckpoint(ByteString.copyFrom(Results.checkedCheckpoint(delegation.checkpoint())));
    if (delegation.role().isEmpty()) {
      message.setCapability(Texts.clean(delegation.capability()));
    } else {
      message.setRole(Texts.clean(delegation.role()));
    }
    delegation.timeout().ifPresent(seconds -> message.setTimeout(Wire.duration(Math.max(0, seconds))));
    if (delegation.budget() != null) {
      message.setBudget(delegation.budget().proto());
    }
    TraceContext current = TraceContext.current();
    TraceContext trace = current.isEmpty() ? trace() : current;
    if (!trace.isEmpty()) {
      message.getTraceBuilder().setTraceparent(trace.traceparent()).setTracestate(trace.tracestate());
    }
    CompletableFuture<dev.archon.api.agent.v1.DelegateResult> call = link.delegate(message.build());
    CompletableFuture<Delegated> answer = call.thenApply(Task::delegated);
    answer.whenComplete(
        (value, error) -> {
          if (error instanceof CancellationException) {
            call.cancel(false);
          }
        });
    return answer;
  }

  private static Delegated delegated(dev.archon.api.agent.v1.DelegateResult reply) {
    dev.archon.api.agent.v1.TaskResult result = reply.getResult();
    if (result.getState() != dev.archon.api.common.v1.TaskState.TASK_STATE_COMPLETED) {
      throw Failures.fromFailure(result.getFailure());
    }
    return new Delegated(
        Wire.textOf(result.getOutputList()),
        Part.of(result.getOutputList()),
        Usage.of(result.getUsage()),
        reply.getMemoized(),
        Map.copyOf(result.getMetadataMap()));
  }

  // People

  /**
   * Asks a person and returns the text of the answer, while the attempt keeps its state and its slot. The time of the run and of this
   * task stands still. For an answer that may take hours return a {@link Question}: it frees the slot.
   */
  public String ask(String question) throws InterruptedException {
    return ask(Question.of(question)).text();
  }

  /**
   * Asks a person and returns the answer with its decision. The answer belongs to the task: a later attempt that asks with the same
   * id gets it at once. By default the id is the number of the question in the attempt.
   *
   * <p>Throws INVALID_ARGUMENT for an id above 256 characters, FRAME_TOO_LARGE, NOT_SERVED.
   */
  public GivenAnswer ask(Question question) throws InterruptedException {
    if (Texts.characters(question.inputId()) > MAX_INPUT_ID) {
      throw ArchonException.invalid("input_id", "has more than " + MAX_INPUT_ID + " characters");
    }
    String id = question.inputId().isEmpty() ? "a" + questions.incrementAndGet() : question.inputId();
    InputRequest request = question.proto(id);
    GivenAnswer known = answers().get(request.getInputId());
    return known != null ? known : GivenAnswer.of(Waits.await(link.ask(request)));
  }

  /**
   * Asks a person for a secret, such as a credential, and returns it. The answer is encrypted for this attempt: the journal, records and
   * watchers of the run do not have it. A later attempt asks again. Throws INVALID_ARGUMENT if the answer was not encrypted for this
   * question, and the errors of {@link #ask(Question)}.
   */
  public String askSecret(String question) throws InterruptedException {
    SecretAnswers.SecretQuestion secret = new SecretAnswers.SecretQuestion();
    String id = "secret-" + attempt() + "-" + questions.incrementAndGet();
    return secret.open(ask(Question.of(question).withSchema(secret.schemaJson()).withId(id)).text());
  }

  // Messages

  /**
   * Sends a message, by default a {@code task_request}, and returns the answer. If no task of the receiver is reading messages, the
   * request becomes a task of its own for the role, as by {@link #delegate}. Throws DEADLINE_EXCEEDED if no answer comes in time,
   * and the errors of {@link #send} and {@link #delegate}.
   */
  public Message request(String role, String text, double seconds) throws InterruptedException {
    return request(OutgoingMessage.to(role, text).ofType(MessageType.TASK_REQUEST), seconds);
  }

  /** Sends a message and returns the answer, as {@link #request(String, String, double)}. */
  public Message request(OutgoingMessage message, double seconds) throws InterruptedException {
    messenger().subscribe(List.of());
    try {
      Sent sent = messenger().send(message, true);
      Message reply = messenger().inbox().reply(sent.messageId(), seconds);
      if (reply == null) {
        throw ArchonException.of(Reasons.DEADLINE_EXCEEDED, "no reply came within " + seconds + " s").build();
      }
      return reply;
    } catch (ArchonException refused) {
      if (!refused.is(Reasons.NO_RECEIVER)) {
        throw refused;
      }
    }
    Delegation delegation =
        Delegation.to(message.to(), "").withInput(List.of(message.content())).withMemoKey(message.messageId());
    Delegated done = delegate(delegation.withTimeout(seconds));
    double now = System.currentTimeMillis() / 1000.0;
    return new Message(
        "", message.to(), "", MessageType.TASK_RESPONSE, done.parts(), now, "", "", OptionalDouble.empty(), 0);
  }

  // Budget and records

  /**
   * Reserves a part of the run's budget for a call of a model, beyond the usage so far. Returns at once if the run has no budget.
   * Throws BUDGET_EXHAUSTED if less is left, INVALID_ARGUMENT for a negative amount.
   */
  public void reserve(long tokens, long costMicroUsd, long modelCalls) throws InterruptedException {
    checkAmount("tokens", tokens);
    checkAmount("cost_micro_usd", costMicroUsd);
    checkAmount("model_calls", modelCalls);
    while (true) {
      dev.archon.api.common.v1.Budget missing = budget.reserve(usageMessage(), tokens, costMicroUsd, modelCalls);
      if (missing == null) {
        return;
      }
      BudgetGrant grant = Waits.await(link.reserve(missing));
      if (grant.hasFailure()) {
        throw Failures.fromFailure(grant.getFailure());
      }
      if (!grant.hasBudget()) {
        String text =
            String.format(
                "insufficient budget: %,d tokens, %,d micro-USD, %d calls needed", tokens, costMicroUsd, modelCalls);
        throw ArchonException.of(Reasons.BUDGET_EXHAUSTED, text).metadata("role", role()).build();
      }
      budget.add(grant.getBudget());
    }
  }

  private static void checkAmount(String name, long amount) {
    if (amount < 0) {
      throw ArchonException.invalid(name, "must not be negative");
    }
  }

  /** Releases the oldest reservation, for a model call that was not made after all. */
  public void settle() {
    budget.settle();
  }

  /**
   * Records a model call exactly as it was made, and counts its usage. Request and response are JSON values, {@code started} is in
   * seconds since the Unix epoch. With ARCHON_RECORDS=redacted only their sizes and hashes are recorded; with {@code off} only the
   * usage is counted. The call releases the oldest reservation.
   */
  public void recordModelCall(
      String model, String requestJson, String responseJson, double started, double seconds, Usage spent) {
    count(spent.withCalls(1, 0));
    budget.settle();
    sendUsage();
    if (!CallRecords.isOff()) {
      record(
          CallRecords.of(RecordKind.RECORD_KIND_MODEL, model, requestJson, responseJson, started, seconds)
              .setUsage(spent.proto())
              .build());
    }
  }

  /** Records a tool call; arguments and result are JSON values. */
  public void recordToolCall(String tool, String argumentsJson, String resultJson, double started, double seconds) {
    if (!CallRecords.isOff()) {
      record(
          CallRecords.of(RecordKind.RECORD_KIND_TOOL, tool, argumentsJson, resultJson, started, seconds).build());
    }
  }

  private void record(CallRecord record) {
    synchronized (records) {
      records.add(record);
    }
    link.recorded();
  }

  /** Counts usage without recording a call: of work that another system did for this task. */
  public void addUsage(Usage more) {
    count(more);
    sendUsage();
  }

  private synchronized void count(Usage more) {
    usage = usage.plus(more);
  }

  /** Returns the usage so far. */
  public synchronized Usage usage() {
    return usage;
  }

  /** Returns the first slice of the run's budget that the attempt may spend; null if the run has no budget. */
  public Budget budget() {
    return proto().hasBudget() ? Budget.of(proto().getBudget()) : null;
  }

  void sendUsage() {
    dev.archon.api.common.v1.Usage spent = usageMessage();
    if (budget.isLimited() && !spent.equals(dev.archon.api.common.v1.Usage.getDefaultInstance())) {
      link.report(working().setUsage(spent).build());
    }
  }
}
