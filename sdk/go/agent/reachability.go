package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	archon "github.com/archon-mesh/archon/sdk/go"
)

const (
	unreachedAfter = 10 * time.Second // that an orchestrator has to dial a registered agent; it does so at once if it can
	probeTimeout   = 2 * time.Second  // for a call of an orchestrator
)

// attachIfUnreached attaches the agent if no orchestrator can dial it: it is behind NAT, or in another cluster. That is known
// once it is registered, and the orchestrator of the settings has been answering for unreachedAfter. The context ends with
// the agent.
func (s *Server) attachIfUnreached(ctx context.Context) {
	defer close(s.reaching)
	target := s.settings.Orchestrator
	for answered := false; ; {
		select {
		case <-time.After(unreachedAfter):
		case <-ctx.Done():
			return
		}
		if s.isReached() {
			return
		}
		answers := s.Registered() && answers(ctx, target)
		if answers && answered {
			break
		}
		answered = answers
	}
	if ctx.Err() != nil || s.isReached() {
		return
	}
	slog.Warn("no orchestrator can dial this agent: it attaches", "role", s.role, "address", s.settings.advertised(s.grpc.Port()),
		"orchestrator", target)
	s.handle.Close()
	s.mu.Lock()
	s.registration.Address = ""
	s.mu.Unlock()
	attach, err := newAttacher(s, target)
	if err != nil {
		slog.Error("the agent cannot attach", "orchestrator", target, "error", err)
		return
	}
	s.attach = attach
	if err := attach.start(ctx); err != nil && ctx.Err() == nil {
		slog.Error("the orchestrator refuses the agent", "orchestrator", target, "error", err)
	}
}

// isReached reports whether an orchestrator has opened a session.
func (s *Server) isReached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached
}

// answers reports whether there is an orchestrator at an address: any answer to a call of it tells that.
func answers(ctx context.Context, target string) bool {
	channel, err := archon.Connect(target, archon.PeerOrchestrator)
	if err != nil {
		return false
	}
	defer channel.Close()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err = healthv1.NewHealthClient(channel).Check(ctx, &healthv1.HealthCheckRequest{})
	return !errors.Is(err, archon.ErrUnavailable) && !errors.Is(err, archon.ErrDeadlineExceeded) && !errors.Is(err, archon.ErrCancelled)
}
