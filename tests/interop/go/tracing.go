// Spans of tasks, made by OpenTelemetry's SDK for Go below the spans that the orchestrator names on its frames.
package main

import (
	"context"
	"log"
	"os"
	"time"

	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// export sends spans over OTLP if the environment names an endpoint. The returned function sends the last ones.
func export(ctx context.Context) func() {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return func() {}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		log.Printf("spans are not exported: %v", err)
		return func() {}
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(200*time.Millisecond)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "designer-go"))),
	)
	otel.SetTracerProvider(provider)
	return func() {
		last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := provider.Shutdown(last); err != nil {
			log.Printf("the last spans are lost: %v", err)
		}
	}
}

// startSpan starts the span of a task below the one on its frame. The returned function ends it.
func startSpan(ctx context.Context, assigned *agentv1.AssignTask) (context.Context, func(done bool)) {
	carrier := propagation.MapCarrier{
		"traceparent": assigned.GetTrace().GetTraceparent(),
		"tracestate":  assigned.GetTrace().GetTracestate(),
	}
	ctx = propagation.TraceContext{}.Extract(ctx, carrier)
	ctx, span := otel.Tracer("archon-agent").Start(ctx, "invoke_agent designer",
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "invoke_agent"),
			attribute.String("gen_ai.agent.name", "designer"),
		),
	)
	return ctx, func(done bool) {
		if !done {
			span.SetStatus(codes.Error, "stopped")
		}
		span.End()
	}
}
