package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.AgentFrame;
import dev.archon.api.agent.v1.BudgetGrant;
import dev.archon.api.agent.v1.Checkpoint;
import dev.archon.api.agent.v1.Delegate;
import dev.archon.api.agent.v1.DelegateResult;
import dev.archon.api.agent.v1.Input;
import dev.archon.api.agent.v1.InputRequest;
import dev.archon.api.agent.v1.MessageResult;
import dev.archon.api.agent.v1.PeerMessage;
import dev.archon.api.agent.v1.Progress;
import dev.archon.api.agent.v1.Publish;
import dev.archon.api.agent.v1.Subscribe;
import dev.archon.api.common.v1.Budget;
import dev.archon.sdk.internal.Frames;
import dev.archon.sdk.internal.Loop;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/** The way of a task to its orchestrator, for any thread: its work is done on the loop. */
final class AttemptLink {
  private static final int MAX_PROGRESS = 2_000;

  private final Attempt attempt;
  private final Loop loop;
  private final AtomicInteger waiting = new AtomicInteger();

  AttemptLink(Attempt attempt, Loop loop) {
    this.attempt = attempt;
    this.loop = loop;
  }

  /** Sends progress, which is dropped if too much of it waits for the loop. */
  void report(Progress progress) {
    if (waiting.incrementAndGet() > MAX_PROGRESS) {
      waiting.decrementAndGet();
      return;
    }
    byte[] content = Frames.content(AgentFrame.PROGRESS_FIELD_NUMBER, progress);
    loop.run(
        () -> {
          waiting.decrementAndGet();
          attempt.report(content);
        });
  }

  void recorded() {
    loop.run(attempt::recorded);
  }

  void save(Checkpoint checkpoint) throws InterruptedException {
    byte[] content = Frames.content(AgentFrame.CHECKPOINT_FIELD_NUMBER, checkpoint);
    done(() -> attempt.save(content));
  }

  void publish(Publish item) throws InterruptedException {
    byte[] content = Frames.content(AgentFrame.PUBLISH_FIELD_NUMBER, item);
    done(() -> attempt.publish(content));
  }

  void subscribe(Subscribe subscription) throws InterruptedException {
    done(() -> attempt.calls().subscribe(subscription));
  }

  CompletableFuture<DelegateResult> delegate(Delegate delegation) {
    return call(() -> attempt.calls().delegate(delegation));
  }

  CompletableFuture<MessageResult> sendMessage(PeerMessage message) {
    return call(() -> attempt.calls().sendMessage(message));
  }

  CompletableFuture<Input> ask(InputRequest question) {
    return call(() -> attempt.calls().ask(question));
  }

  CompletableFuture<BudgetGrant> reserve(Budget budget) {
    return call(() -> attempt.calls().reserve(budget));
  }

  private void done(Runnable work) throws InterruptedException {
    Waits.await(
        loop.call(
            () -> {
              work.run();
              return true;
            }));
  }

  /** Returns the outcome of a call that is begun on the loop; cancelling it cancels the call. */
  private <T> CompletableFuture<T> call(Callable<CompletableFuture<T>> begin) {
    CompletableFuture<T> outcome = new CompletableFuture<>();
    loop.run(
        () -> {
          try {
            CompletableFuture<T> call = begin.call();
            call.whenComplete(
                (value, error) -> {
                  if (error == null) {
                    outcome.complete(value);
                  } else {
                    outcome.completeExceptionally(error);
                  }
                });
            outcome.whenComplete(
                (value, error) -> {
                  if (outcome.isCancelled()) {
                    call.cancel(false);
                  }
                });
          } catch (Exception refused) {
            outcome.completeExceptionally(refused);
          }
        });
    return outcome;
  }
}
