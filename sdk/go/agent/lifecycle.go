package agent

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
	grpcserver "github.com/archon-mesh/archon/sdk/go/internal/server"
	"github.com/archon-mesh/archon/sdk/go/registry"
)

// Start serves, then registers if a registry is configured; while that is unreachable, registration continues in the
// background. With Attach it dials the orchestrator instead. It fails with FAILED_PRECONDITION if the certificate or the keys
// cannot be used, UNAVAILABLE if the port is taken, and with the errors with which the registry refuses the registration.
// The context bounds the start alone.
func (s *Server) Start(ctx context.Context) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.started {
		return archon.NewError(archon.ReasonFailedPrecondition, "the agent was started before")
	}
	s.started = true
	background, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.stopped = make(chan struct{})
	s.sweeping = make(chan struct{})
	go s.sweep(background)
	s.direct.start()
	err := s.begin(ctx, background)
	if err != nil {
		s.shutDown(0)
	}
	return err
}

// begin starts the agent within ctx; background ends with the agent.
func (s *Server) begin(ctx, background context.Context) error {
	if s.settings.Attach != "" {
		attach, err := newAttacher(s, s.settings.Attach)
		if err != nil {
			return err
		}
		s.attach = attach
		return attach.start(ctx)
	}
	keys, err := grpcserver.NewLearntKeys(s.settings.Registry)
	if err != nil {
		return err
	}
	s.grpc, err = grpcserver.Start(s.settings.Host, s.settings.Port, keys, func(registrar grpc.ServiceRegistrar) {
		agentv1.RegisterAgentServiceServer(registrar, &service{server: s})
		toolv1.RegisterToolServiceServer(registrar, s.tools.Service())
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.address = s.grpc.Address()
	s.registration.Address = s.settings.advertised(s.grpc.Port())
	registration, _ := proto.Clone(s.registration).(*registryv1.Registration)
	s.mu.Unlock()
	if s.settings.Registry == "" {
		slog.Warn("no registry is configured (ARCHON_REGISTRY), so no orchestrator finds this agent", "role", s.role)
		return nil
	}
	if s.client, err = registry.Connect(s.settings.Registry); err != nil {
		return err
	}
	handle, err := s.client.Register(ctx, registration, keys.Tell)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.handle = handle
	s.mu.Unlock()
	s.advertise = make(chan struct{})
	go s.keepAdvertised()
	if s.settings.Orchestrator != "" && len(s.tools.Advertised()) == 0 {
		s.reaching = make(chan struct{})
		go s.attachIfUnreached(background)
	}
	return nil
}

// Registered reports whether the registry is known to hold the registration.
func (s *Server) Registered() bool {
	s.mu.Lock()
	handle := s.handle
	s.mu.Unlock()
	return handle != nil && handle.Registered()
}

// Stop drains: it deregisters, takes no new tasks, finishes tasks in progress within grace, waits up to 5 seconds for results
// to be acknowledged, then ends. Tasks that take longer are given back: they are cancelled here and dispatched to other
// instances, which does not count as a loss. Idempotent; it returns once the agent has stopped.
func (s *Server) Stop(grace time.Duration) {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.started {
		s.shutDown(max(0, grace))
	}
}

func (s *Server) shutDown(grace time.Duration) {
	select {
	case <-s.stopped:
		return
	default:
	}
	deadline := time.Now().Add(grace)
	if s.grpc != nil {
		s.grpc.Unhealthy()
	}
	s.mu.Lock()
	s.draining = true
	for _, each := range s.sessions {
		each.drain()
	}
	s.credit()
	s.mu.Unlock()
	s.tools.Drain()
	s.cancel()
	if s.reaching != nil {
		<-s.reaching
	}
	if s.advertise != nil {
		<-s.advertise
	}
	if s.handle != nil {
		s.handle.Close()
	}
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.attach != nil {
		// An Open that is on its way is answered by ready and drain.
		s.wait(time.Now().Add(min(grace, openOnItsWay)), func() bool { return false })
	}
	if !s.wait(deadline, func() bool { return s.table.working() == 0 }) {
		slog.Warn("stopping with tasks in progress", "role", s.role)
	}
	s.tools.Drained(time.Until(deadline))
	acknowledged := func() bool { return len(s.sessions) == 0 || len(s.table.attempts) <= s.table.working() }
	if !s.wait(time.Now().Add(min(grace, ackGrace)), acknowledged) {
		slog.Warn("stopping with results that were never acknowledged", "role", s.role)
	}
	s.tools.Stop()
	s.stopAttempts()
	s.mu.Lock()
	for _, each := range s.all {
		each.end(nil)
	}
	s.mu.Unlock()
	if s.attach != nil {
		s.attach.stop()
	}
	<-s.sweeping
	s.direct.close()
	if s.grpc != nil {
		s.grpc.Stop(time.Second)
	}
	s.streams.Wait()
	s.workers.close()
	if s.leftOver == 0 {
		s.workers.running.Wait()
	}
	close(s.stopped)
}

// wait waits until a condition of the table is true, and returns whether it is.
func (s *Server) wait(deadline time.Time, condition func() bool) bool {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		s.mu.Lock()
		if condition() {
			s.mu.Unlock()
			return true
		}
		news := s.table.next()
		s.mu.Unlock()
		select {
		case <-news:
		case <-timer.C:
			return false
		}
	}
}

// stopAttempts cancels all handlers without sending results (the orchestrator finds the attempts lost), and waits a moment
// for them to end.
func (s *Server) stopAttempts() {
	stopped := archon.NewError(archon.ReasonCancelled, "the agent was stopped")
	s.mu.Lock()
	for _, a := range s.table.attempts {
		a.sink = nil
		a.halt(stopped, false)
	}
	for a := range s.table.running {
		a.sink = nil
		a.halt(stopped, false)
	}
	clear(s.table.attempts)
	clear(s.table.kept)
	s.table.parkedBytes = 0
	s.mu.Unlock()
	if !s.wait(time.Now().Add(stopGrace), func() bool { return len(s.table.running) == 0 }) {
		s.mu.Lock()
		s.leftOver = len(s.table.running)
		s.mu.Unlock()
		slog.Error("left running handlers behind that ignore their context", "role", s.role)
	}
}
