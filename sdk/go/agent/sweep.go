package agent

import (
	"context"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/toolowner"
)

func (s *Server) sweep(ctx context.Context) {
	defer close(s.sweeping)
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.sweepOnce(now)
		case <-ctx.Done():
			return
		}
	}
}

// sweepOnce drops what has expired, ends silent streams, and offers what no orchestrator has asked for: results, and attempts
// in progress that have no stream or wait for an answer, which may be over.
func (s *Server) sweepOnce(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.expire(now)
	for _, each := range s.all {
		each.check(now)
	}
	s.credit()
	if len(s.sessions) == 0 {
		return
	}
	to := &s.sessions[mathrand.IntN(len(s.sessions))].sink
	late := now.Add(-sweepInterval)
	for _, a := range s.table.attempts {
		switch {
		case !a.working() && (a.sink == nil || a.finishedAt.Before(late)):
			a.offer(to)
		case a.working() && a.sink == nil:
			a.offer(to)
		case a.working() && a.waiting():
			a.offer(a.sink)
		}
	}
}

// keepAdvertised updates the registration as the shared tools change: at once when one is shared or taken back, and once a
// minute if the figures of one have changed notably.
func (s *Server) keepAdvertised() {
	defer close(s.advertise)
	background, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		pause := time.NewTimer(time.Minute + time.Duration(mathrand.Int64N(int64(6*time.Second))))
		select {
		case <-s.tools.Changed():
		case <-pause.C:
		case <-s.sweeping: // the agent stops
			pause.Stop()
			return
		}
		pause.Stop()
		s.mu.Lock()
		registration, _ := proto.Clone(s.registration).(*registryv1.Registration)
		s.mu.Unlock()
		current := toolowner.WithShared(registration.GetTools(), s.tools.Advertised())
		if !toolowner.DiffersNotably(registration.GetTools(), current) {
			continue
		}
		registration.Tools = current
		if err := s.handle.Update(background, registration); err != nil {
			slog.Warn("the shared tools are not registered", "error", err)
			continue
		}
		s.mu.Lock()
		s.registration = registration
		s.mu.Unlock()
	}
}
