package agent

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
)

// ToolHealth says how the calls of a tool have ended since the process started, for Describe. Breaker is closed, open,
// half_open, or empty without a circuit breaker.
type ToolHealth struct {
	Name        string
	Version     string
	Calls       int64
	Failures    int64
	Timeouts    int64
	Cached      int64
	MeanLatency time.Duration
	P95Latency  time.Duration
	Slow        bool
	Breaker     string
}

func (h ToolHealth) proto() *agentv1.ToolHealth {
	return &agentv1.ToolHealth{
		Name: cleanText(h.Name), Version: cleanText(h.Version), Calls: h.Calls, Failures: h.Failures, Timeouts: h.Timeouts,
		Cached: h.Cached, MeanLatency: durationpb.New(h.MeanLatency), P95Latency: durationpb.New(h.P95Latency), Slow: h.Slow,
		Breaker: agentv1.CircuitBreakerState(agentv1.CircuitBreakerState_value["CIRCUIT_BREAKER_STATE_"+strings.ToUpper(h.Breaker)]),
	}
}
