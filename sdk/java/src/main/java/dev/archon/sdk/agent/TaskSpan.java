package dev.archon.sdk.agent;

import dev.archon.api.agent.v1.TaskResult;
import dev.archon.api.common.v1.TaskState;
import dev.archon.api.common.v1.Usage;
import dev.archon.sdk.errors.ArchonException;
import dev.archon.sdk.errors.Failures;
import dev.archon.sdk.internal.Texts;
import dev.archon.sdk.internal.Wire;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import java.util.concurrent.Callable;

/** The span of one attempt at a task, as the agent that works on it sees it. */
final class TaskSpan {
  private final Span span;

  private TaskSpan(Span span) {
    this.span = span;
  }

  static TaskSpan start(OpenTelemetry telemetry, Task task) {
    SpanContext parent = task.trace().remote();
    Context under = parent.isValid() ? Context.root().with(Span.wrap(parent)) : Context.root();
    Span span =
        telemetry
            .getTracer("archon")
            .spanBuilder("invoke_agent " + task.role())
            .setParent(under)
            .setSpanKind(SpanKind.SERVER)
            .setAttribute("gen_ai.operation.name", "invoke_agent")
            .setAttribute("gen_ai.agent.name", task.role())
            .setAttribute("archon.run.id", task.runId())
            .setAttribute("archon.task.id", task.taskId())
            .setAttribute("archon.task.attempt", (long) task.attempt())
            .startSpan();
    if (!task.conversationId().isEmpty()) {
      span.setAttribute("gen_ai.conversation.id", task.conversationId());
    }
    return new TaskSpan(span);
  }

  /** Calls within the span. */
  <T> T within(Callable<T> work) throws Exception {
    if (!span.getSpanContext().isValid()) {
      return work.call();
    }
    try (Scope scope = span.makeCurrent()) {
      assert scope != null;
      return work.call();
    }
  }

  /** Ends the span with the attempt's usage and outcome. */
  void end(TaskResult result) {
    Usage usage = result.getUsage();
    if (usage.getModelCalls() > 0) {
      span.setAttribute("gen_ai.usage.input_tokens", usage.getInputTokens());
      span.setAttribute("gen_ai.usage.output_tokens", usage.getOutputTokens());
    }
    if (usage.getCachedInputTokens() > 0) {
      span.setAttribute("gen_ai.usage.cache_read.input_tokens", usage.getCachedInputTokens());
    }
    if (usage.getCacheWriteTokens() > 0) {
      span.setAttribute("gen_ai.usage.cache_creation.input_tokens", usage.getCacheWriteTokens());
    }
    if (usage.getCostMicroUsd() > 0) {
      span.setAttribute("archon.usage.cost_usd", usage.getCostMicroUsd() / 1e6);
    }
    span.setAttribute("archon.task.state", Wire.enumName(result.getState(), "TASK_STATE_"));
    TaskState state = result.getState();
    if (state == TaskState.TASK_STATE_FAILED
        || state == TaskState.TASK_STATE_REJECTED
        || state == TaskState.TASK_STATE_CANCELED) {
      ArchonException error = Failures.fromFailure(result.getFailure());
      span.setAttribute("error.type", error.reason());
      span.setStatus(StatusCode.ERROR, Texts.head(String.valueOf(error.getMessage()), 1024));
    }
    span.end();
  }
}
