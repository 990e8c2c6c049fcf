package agent

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
)

const scope = "archon" // the instrumentation scope of all spans

// startTaskSpan starts the span of an attempt, whose parent is the one that the assignment names. Without a provider of
// OpenTelemetry nothing is made, and calls of the handler continue the trace of the assignment.
func startTaskSpan(ctx context.Context, task *Task) (context.Context, trace.Span) {
	attributes := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "invoke_agent"),
		attribute.String("gen_ai.agent.name", task.Role()),
		attribute.String("archon.run.id", task.RunID()),
		attribute.String("archon.task.id", task.ID()),
		attribute.Int("archon.task.attempt", task.Attempt()),
	}
	if id := task.ConversationID(); id != "" {
		attributes = append(attributes, attribute.String("gen_ai.conversation.id", id))
	}
	return otel.Tracer(scope).Start(ctx, "invoke_agent "+task.Role(), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attributes...))
}

// endTaskSpan ends the span with the attempt's usage and outcome.
func endTaskSpan(span trace.Span, result *agentv1.TaskResult) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	usage := result.GetUsage()
	if usage.GetModelCalls() > 0 {
		span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", usage.GetInputTokens()),
			attribute.Int64("gen_ai.usage.output_tokens", usage.GetOutputTokens()))
	}
	if tokens := usage.GetCachedInputTokens(); tokens > 0 {
		span.SetAttributes(attribute.Int64("gen_ai.usage.cache_read.input_tokens", tokens))
	}
	if tokens := usage.GetCacheWriteTokens(); tokens > 0 {
		span.SetAttributes(attribute.Int64("gen_ai.usage.cache_creation.input_tokens", tokens))
	}
	if cost := usage.GetCostMicroUsd(); cost > 0 {
		span.SetAttributes(attribute.Float64("archon.usage.cost_usd", float64(cost)/1e6))
	}
	state := archon.StateOf(result.GetState())
	span.SetAttributes(attribute.String("archon.task.state", strings.ToLower(string(state))))
	switch state {
	case archon.StateFailed, archon.StateRejected, archon.StateCanceled:
		err := archon.FromFailure(result.GetFailure())
		span.SetAttributes(attribute.String("error.type", string(err.Reason)))
		span.SetStatus(otelcodes.Error, cut(err.Message, 1024))
	}
}
