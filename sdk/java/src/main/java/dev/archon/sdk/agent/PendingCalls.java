package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.BudgetGrant;
import dev.archon.api.agent.v1.BudgetRequest;
import dev.archon.api.agent.v1.CancelDelegation;
import dev.archon.api.agent.v1.Delegate;
import dev.archon.api.agent.v1.DelegateResult;
import dev.archon.api.agent.v1.Input;
import dev.archon.api.agent.v1.InputRequest;
import dev.archon.api.agent.v1.MessageResult;
import dev.archon.api.agent.v1.OrchestratorFrame;
import dev.archon.api.agent.v1.PeerMessage;
import dev.archon.api.agent.v1.Subscribe;
import dev.archon.api.common.v1.Budget;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Reasons;
import dev.archon.sdk.internal.Frames;
import dev.archon.sdk.internal.Loop;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;

/**
 * The calls of one attempt that wait for its orchestrator: delegations, questions, requests for budget, messages. An answer may
 * come twice, from two owners: the first counts. Used by the loop.
 */
final class PendingCalls {
  private static final int MAX_SENDING = 32;

  private final Attempt attempt;
  private final Loop loop;
  private final Map<String, CompletableFuture<DelegateResult>> delegations = new HashMap<>();
  private final Map<String, CompletableFuture<BudgetGrant>> requests = new HashMap<>();
  private final Map<String, CompletableFuture<Input>> questions = new HashMap<>();
  private final Map<String, CompletableFuture<MessageResult>> messages = new HashMap<>();
  private final Deque<Runnable> waitingMessages = new ArrayDeque<>();
  private final Deque<Runnable> waitingQuestions = new ArrayDeque<>();
  private final Deque<CompletableFuture<Input>> waitingOutcomes = new ArrayDeque<>();
  private boolean isAsking;
  private int sending;
  private int requested;

  PendingCalls(Attempt attempt, Loop loop) {
    this.attempt = attempt;
    this.loop = loop;
  }

  /** Returns whether a delegation is pending: the attempt takes no slot then. */
  boolean isWaiting() {
    return !delegations.isEmpty();
  }

  CompletableFuture<DelegateResult> delegate(Delegate delegation) {
    byte[] content = Frames.content(AgentFrame.DELEGATE_FIELD_NUMBER, delegation);
    check(content, "delegate");
    attempt.flush();
    CompletableFuture<DelegateResult> call = call(delegations, delegation.getDelegationId(), content);
    call.whenComplete(
        (result, error) -> {
          if (call.isCancelled() || (error instanceof ArchonException late && late.is(Reasons.DEADLINE_EXCEEDED))) {
            loop.run(() -> unneeded(delegation.getDelegationId()));
          }
        });
    return call;
  }

  private void unneeded(String id) {
    if (attempt.isWorking()) {
      CancelDelegation cancel = CancelDelegation.newBuilder().setDelegationId(id).build();
      attempt.send(Frames.content(AgentFrame.CANCEL_DELEGATION_FIELD_NUMBER, cancel));
    }
  }

  CompletableFuture<BudgetGrant> reserve(Budget budget) {
    String id = "b" + ++requested;
    BudgetRequest request = BudgetRequest.newBuilder().setBudget(budget).setRequestId(id).build();
    byte[] content = Frames.content(AgentFrame.BUDGET_REQUEST_FIELD_NUMBER, request);
    check(content, "budget");
    return call(requests, id, content);
  }

  CompletableFuture<MessageResult> sendMessage(PeerMessage message) {
    byte[] content = Frames.content(AgentFrame.SEND_MESSAGE_FIELD_NUMBER, message);
    check(content, "messages");
    String id = message.getMessageId();
    if (messages.containsKey(id)) {
      throw ArchonException.invalid("message_id", "a message with the id '" + id + "' is on its way");
    }
    CompletableFuture<MessageResult> call = new CompletableFuture<>();
    messages.put(id, call);
    Runnable begin =
        () -> {
          sending++;
          attempt.flush();
          begin(messages, id, call, content);
          call.whenComplete((result, error) -> loop.execute(this::sent));
        };
    if (sending < MAX_SENDING) {
      begin.run();
    } else {
      waitingMessages.add(begin);
    }
    return call;
  }

  private void sent() {
    sending--;
    Runnable next = waitingMessages.poll();
    if (next != null && attempt.isWorking()) {
      next.run();
    }
  }

  void subscribe(Subscribe subscription) {
    byte[] content = Frames.content(AgentFrame.SUBSCRIBE_FIELD_NUMBER, subscription);
    check(content, "messages");
    attempt.send(content);
  }

  /** Asks a person. Questions are asked one after another, and the time of the task stands still meanwhile. */
  CompletableFuture<Input> ask(InputRequest question) {
    byte[] content = Frames.content(AgentFrame.ASK_FIELD_NUMBER, question);
    check(content, "input");
    CompletableFuture<Input> outcome = new CompletableFuture<>();
    Runnable begin =
        () -> {
          if (outcome.isDone()) {
            asked();
            return;
          }
          isAsking = true;
          attempt.flush();
          attempt.stopClock();
          CompletableFuture<Input> call = call(questions, question.getInputId(), content);
          outcome.whenComplete((result, error) -> loop.run(() -> call.cancel(false)));
          call.whenComplete(
              (result, error) ->
                  loop.run(
                      () -> {
                        asked(); // before the handler goes on
                        if (error == null) {
                          outcome.complete(result);
                        } else {
                          outcome.completeExceptionally(error);
                        }
                      }));
        };
    if (isAsking) {
      waitingQuestions.add(begin);
      waitingOutcomes.add(outcome);
    } else {
      begin.run();
    }
    return outcome;
  }

  private void asked() {
    isAsking = false;
    attempt.startClock();
    Runnable next = waitingQuestions.poll();
    waitingOutcomes.poll();
    if (next != null && attempt.isWorking()) {
      next.run();
    }
  }

  private void check(byte[] content, String feature) {
    if (!attempt.isWorking()) {
      throw ArchonException.of(Reasons.CANCELLED, "the task is over").build();
    }
    if (!attempt.agrees(feature)) {
      throw Rejections.unsupported(feature);
    }
    attempt.channel().checkSize(content, attempt.limit());
  }

  private <T> CompletableFuture<T> call(Map<String, CompletableFuture<T>> pending, String name, byte[] content) {
    CompletableFuture<T> call = new CompletableFuture<>();
    begin(pending, name, call, content);
    return call;
  }

  private <T> void begin(
      Map<String, CompletableFuture<T>> pending, String name, CompletableFuture<T> call, byte[] content) {
    pending.put(name, call);
    attempt.send(content);
    OptionalDouble left = attempt.remaining();
    Future<?> timer =
        left.isEmpty() ? null : loop.schedule(left.getAsDouble(), () -> call.completeExceptionally(late()));
    call.whenComplete(
        (result, error) ->
            loop.run(
                () -> {
                  Loop.cancel(timer);
                  pending.remove(name, call);
                }));
  }

  private static ArchonException late() {
    return ArchonException.of(Reasons.DEADLINE_EXCEEDED, "the task's time is over").build();
  }

  /** Takes a delegate_result, an input, a message_result or a budget_grant; drops it if no call waits for it. */
  void answered(OrchestratorFrame frame) {
    switch (frame.getFrameCase()) {
      case DELEGATE_RESULT ->
          complete(delegations.remove(frame.getDelegateResult().getDelegationId()), frame.getDelegateResult());
      case INPUT -> complete(questions.get(frame.getInput().getInputId()), frame.getInput());
      case MESSAGE_RESULT -> complete(messages.get(frame.getMessageResult().getMessageId()), frame.getMessageResult());
      default -> complete(requests.get(frame.getBudgetGrant().getRequestId()), frame.getBudgetGrant());
    }
  }

  private static <T> void complete(CompletableFuture<T> call, T answer) {
    if (call != null) {
      call.complete(answer);
    }
  }

  /** Fails all calls: the orchestrator does not know these frames and will not answer. */
  void refuse(ArchonException error) {
    pending().forEach(call -> call.completeExceptionally(error));
  }

  /** Cancels all calls: the task is over and nothing will be answered. */
  void close() {
    pending().forEach(call -> call.cancel(false));
    waitingQuestions.clear();
    waitingOutcomes.forEach(outcome -> outcome.cancel(false));
    waitingOutcomes.clear();
    waitingMessages.clear();
  }

  private List<CompletableFuture<?>> pending() {
    List<CompletableFuture<?>> all = new ArrayList<>(delegations.values());
    all.addAll(questions.values());
    all.addAll(requests.values());
    all.addAll(messages.values());
    return all;
  }
}
