package archon

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The tenant and the identity of calls that nobody has made by name.
const (
	DefaultTenant = "default"
	Anonymous     = "anonymous"
)

// Call is the call that a context serves: on whose behalf it is made, and the attempt that an agent works on. It travels in
// a context.Context, and from there with every hop: calls that a service makes present the same identity.
type Call struct {
	Tenant   string
	Identity string
	RunID    string
	TaskID   string
	Attempt  int
	Role     string
}

type callKey struct{}

// WithCall returns a context that serves a call.
func WithCall(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallOf returns the call that a context serves; an anonymous one of the default tenant outside of a call.
func CallOf(ctx context.Context) Call {
	if call, ok := ctx.Value(callKey{}).(Call); ok {
		return call
	}
	return Call{Tenant: DefaultTenant, Identity: Anonymous}
}

var w3c propagation.TraceContext

// WithTrace returns a context whose parent span is the one in the values of the headers traceparent and tracestate (W3C
// Trace Context). Values that are none leave the context as it is.
func WithTrace(ctx context.Context, traceparent, tracestate string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
}

// TraceOf returns the values of the headers traceparent and tracestate for calls made with a context; empty without a span.
func TraceOf(ctx context.Context) (traceparent, tracestate string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return "", ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// Remaining returns the time that a context has left, never below 0, and whether it has a deadline at all.
func Remaining(ctx context.Context) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0, false
	}
	return max(0, time.Until(deadline)), true
}

// withDefault returns a context with a deadline of its own if it has none.
func withDefault(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}
