package dev.archon.sdk.runview;

import dev.archon.api.common.v1.Failure;
import dev.archon.api.common.v1.Part;
import dev.archon.api.common.v1.QuestionKind;
import dev.archon.api.orchestrator.v1.ApprovalRequested;
import dev.archon.api.orchestrator.v1.Delegated;
import dev.archon.api.orchestrator.v1.InputGiven;
import dev.archon.api.orchestrator.v1.InputRequested;
import dev.archon.api.orchestrator.v1.ResultReceived;
import dev.archon.api.orchestrator.v1.RunEvent;
import dev.archon.api.orchestrator.v1.TaskStateChanged;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import dev.archon.sdk.types.TaskState;
import dev.archon.sdk.types.Usage;
import java.util.List;

/** Folds the events of a task into its view. */
final class TaskEvents {
  private static final int TEXT_KEPT = 2_000;

  private TaskEvents() {}

  static ArchonException failure(boolean isSet, Failure message) {
    return isSet && !(message.getKind().isEmpty() && message.getMessage().isEmpty()) ? Failures.fromFailure(message) : null;
  }

  static void apply(TaskView task, RunEvent event, double now) {
    int number = event.getTask().getAttempt();
    AttemptView attempt = null;
    for (AttemptView each : task.attempts) {
      attempt = number == 0 || each.number == number ? each : attempt;
    }
    if (attempt == null) {
      attempt = new AttemptView(number, "", now); // before the first dispatch, one that is not kept
    }
    spend(attempt, event);
    switch (event.getEventCase()) {
      case TASK_STATE -> changeState(task, attempt, event.getTaskState(), now);
      case DISPATCHED -> begin(task, event, now);
      case RESULT -> end(task, event, now);
      case LOST, REJECTED, RETRY -> waitAgain(task, attempt, event, now);
      case DISCARDED -> {
        attempt.discarded = true;
        if (attempt == task.attempt() && attempt.ended == 0) { // it was ordered to stop
          task.end(now, TaskState.CANCELED, null);
          task.failure = task.stopping;
        }
      }
      case INPUT_REQUESTED, APPROVAL_REQUESTED -> ask(task, attempt, event, now);
      case INPUT_GIVEN -> answer(task, attempt, event.getInputGiven(), now);
      case QUESTION_TIMED_OUT -> {
        String policy = Wire.enumName(event.getQuestionTimedOut().getPolicy(), "TIMEOUT_POLICY_");
        question(task, event.getQuestionTimedOut().getInputId()).timedOut = policy.isEmpty() ? "unknown" : policy;
      }
      case DELEGATED -> delegate(attempt, event.getDelegated(), now);
      case DELEGATION_CANCELLED -> {
        String id = event.getDelegationCancelled().getDelegationId();
        attempt.delegations.stream().filter(each -> each.delegationId.equals(id)).forEach(each -> each.cancelled = now);
      }
      case BUDGET_RESERVED -> {
        if (!event.getBudgetReserved().hasBudget()) {
          attempt.budgetRefused = true;
          task.lastFailure = failure(event.getBudgetReserved().hasFailure(), event.getBudgetReserved().getFailure());
        }
      }
      case CHECKPOINT ->
          task.checkpointBytes = Math.max(event.getCheckpoint().getSize(), event.getCheckpoint().getData().size());
      case PUBLISHED -> {
        if (event.getPublished().getRef().getSeq() == task.resultSeq) {
          task.version = event.getPublished().getRef().getVersion();
        }
      }
      case TEXT_DELTA, THINKING_DELTA, TOOL_EVENT -> {
        if (attempt == task.attempt()) {
          progress(task, event);
        }
      }
      default -> {}
    }
    if (task.attempt() != null && task.attempt().ended != 0) {
      task.toolCalls.clear();
    }
  }

  private static void changeState(TaskView task, AttemptView attempt, TaskStateChanged changed, double now) {
    ArchonException why = failure(changed.hasFailure(), changed.getFailure());
    if (changed.getStopping()) {
      task.stopping = why;
      if (task.question() != null) { // no one has to answer what is not needed any more
        task.closeQuestion(now);
        task.state = TaskState.WORKING;
      }
      if (attempt.ended == 0) {
        attempt.stopping = why;
      }
      return;
    }
    task.state = TaskState.of(changed.getStateValue());
    task.lastFailure = why != null ? why : task.lastFailure;
    if (task.state.isFinal()) {
      task.end(now, task.state, why);
    }
  }

  private static void begin(TaskView task, RunEvent event, double now) {
    task.closeQuestion(now);
    task.state = TaskState.WORKING;
    task.text = "";
    task.thinking = "";
    task.written = 0;
    task.toolCalls.clear();
    task.attempts.add(new AttemptView(event.getTask().getAttempt(), event.getDispatched().getInstanceId(), now));
  }

  private static void end(TaskView task, RunEvent event, double now) {
    ResultReceived result = event.getResult();
    ArchonException why = failure(result.hasFailure(), result.getFailure());
    task.state = TaskState.of(result.getStateValue());
    task.lastFailure = why;
    if (task.state.isFinal()) {
      task.resultSeq = event.getSeq();
      task.reused = task.state == TaskState.COMPLETED && event.getTask().getAttempt() == 0 && !result.hasResolution();
      task.end(now, task.state, why);
    }
  }

  /** Ends an attempt that was lost or rejected, or that failed for now, which alone withdraws its question. */
  private static void waitAgain(TaskView task, AttemptView attempt, RunEvent event, double now) {
    Outcome outcome = Outcome.LOST;
    Failure why = event.getLost().getFailure();
    if (event.hasRetry()) {
      if (event.getRetry().hasResolution()) {
        return; // no attempt has failed
      }
      task.closeQuestion(now);
      outcome = Outcome.RETRIED;
      why = event.getRetry().getFailure();
      attempt.retryTime = Wire.seconds(event.getRetry().getNotBefore());
    } else if (event.hasRejected()) {
      why = event.getRejected().getFailure();
      outcome = why.containsMetadata("given_back") ? Outcome.GIVEN_BACK : Outcome.REJECTED;
      attempt.retryTime = Wire.seconds(event.getRejected().getNotBefore());
    }
    attempt.end(now, outcome, failure(true, why));
    task.state = task.question() == null ? TaskState.SUBMITTED : TaskState.INPUT_REQUIRED;
    task.lastFailure = failure(true, why);
  }

  private static void ask(TaskView task, AttemptView attempt, RunEvent event, double now) {
    task.closeQuestion(now);
    InputRequested asked = event.getInputRequested();
    ApprovalRequested approval = event.getApprovalRequested();
    boolean isApproval = event.hasApprovalRequested();
    List<Part> prompt = isApproval ? approval.getPromptList() : asked.getPromptList();
    QuestionView question = new QuestionView(isApproval ? approval.getInputId() : asked.getInputId(), task.role);
    question.text = Wire.partsText(prompt);
    question.isApproval = isApproval || asked.getKind() == QuestionKind.QUESTION_KIND_APPROVAL;
    question.schemaJson = asked.getSchemaJson();
    question.attempt = event.getTask().getAttempt();
    question.asked = now;
    question.continues = asked.getSequence() != 0 && attempt == task.attempt();
    task.questions.add(question);
    task.state = TaskState.INPUT_REQUIRED;
    if (!question.continues) {
      attempt.end(now, Outcome.ASKED, null);
    }
  }

  private static QuestionView question(TaskView task, String inputId) {
    QuestionView found = null;
    for (QuestionView each : task.questions) {
      found = each.inputId.equals(inputId) ? each : found;
    }
    return found == null ? new QuestionView(inputId, task.role) : found;
  }

  private static void answer(TaskView task, AttemptView attempt, InputGiven given, double now) {
    QuestionView question = question(task, given.getInputId());
    question.ended = question.ended == 0 ? now : question.ended;
    question.answer = Wire.partsText(given.getPartsList());
    question.identity = given.getIdentity();
    question.decision = Wire.enumName(given.getDecision(), "DECISION_");
    if (task.state == TaskState.INPUT_REQUIRED) {
      boolean goesOn = attempt == task.attempt() && attempt.ended == 0;
      task.state = goesOn ? TaskState.WORKING : TaskState.SUBMITTED;
    }
  }

  private static void delegate(AttemptView attempt, Delegated source, double now) {
    DelegationView delegation =
        new DelegationView(source.getDelegationId(), source.getChildTaskId(), source.getRole(), now);
    delegation.refusal = failure(source.hasFailure(), source.getFailure());
    attempt.delegations.add(delegation);
  }

  private static void progress(TaskView task, RunEvent event) {
    if (event.hasThinkingDelta()) {
      task.thinking = Texts.tail(task.thinking + event.getThinkingDelta().getText(), TEXT_KEPT);
      return;
    }
    task.thinking = "";
    if (event.hasTextDelta()) {
      task.written = event.getTextDelta().getOffset() + Texts.bytes(event.getTextDelta().getText());
      task.text = Texts.tail(task.text + event.getTextDelta().getText(), TEXT_KEPT);
      return;
    }
    task.toolCalls.remove(event.getToolEvent().getCallId());
    if (!event.getToolEvent().getArgumentsJson().isEmpty() || event.getToolEvent().getResultJson().isEmpty()) {
      task.toolCalls.put(event.getToolEvent().getCallId(), event.getToolEvent().getToolName());
    }
  }

  /** Notes an attempt's usage; a result that a person has approved repeats it, one that replaces it has no usage. */
  private static void spend(AttemptView attempt, RunEvent event) {
    dev.archon.api.common.v1.Usage usage =
        switch (event.getEventCase()) {
          case RESULT -> event.getResult().hasUsage() ? event.getResult().getUsage() : null;
          case RETRY -> event.getRetry().hasUsage() ? event.getRetry().getUsage() : null;
          case INPUT_REQUESTED -> event.getInputRequested().hasUsage() ? event.getInputRequested().getUsage() : null;
          case DISCARDED -> event.getDiscarded().hasUsage() ? event.getDiscarded().getUsage() : null;
          case APPROVAL_REQUESTED ->
              event.getApprovalRequested().getResult().hasUsage() ? event.getApprovalRequested().getResult().getUsage() : null;
          default -> null;
        };
    boolean isEmpty = dev.archon.api.common.v1.Usage.getDefaultInstance().equals(usage);
    if (usage != null && (attempt.usage == null || !isEmpty)) {
      attempt.usage = Usage.of(usage);
    }
  }
}
