package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"regexp"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
	grpcserver "github.com/archon-mesh/archon/sdk/go/internal/server"
	"github.com/archon-mesh/archon/sdk/go/internal/toolowner"
	"github.com/archon-mesh/archon/sdk/go/registry"
)

const (
	sweepInterval = 5 * time.Second
	ackGrace      = 5 * time.Second
	stopGrace     = time.Second
	openOnItsWay  = 50 * time.Millisecond
	maxSessions   = 64 // orchestrators that may have a session at a time: far more than one mesh has replicas
	maxUnopened   = 64 // streams that may wait for Open at a time; a further one ends the oldest
)

// Handler executes a task. It runs in a goroutine of its own; its context is cancelled if the task is cancelled, its time is
// over, or the agent stops. After that it has a second to return, then the attempt ends without it.
type Handler func(ctx context.Context, task *Task) (Answer, error)

// Server serves one role as a full member of the mesh.
type Server struct {
	role       string
	instanceID string
	settings   Settings
	handler    Handler
	bid        Handler
	maxWaiting int
	health     func() []ToolHealth
	tools      *toolowner.Owner
	direct     *directInbox
	workers    *workers
	streams    sync.WaitGroup

	mu           sync.Mutex
	registration *registryv1.Registration
	table        *attemptTable
	all          []*session // streams, also those that wait for Open
	sessions     []*session // with an open session
	draining     bool

	lifecycle sync.Mutex
	started   bool
	grpc      *grpcserver.Server
	client    *registry.Client
	handle    *registry.Handle
	attach    *attacher
	cancel    context.CancelFunc
	sweeping  chan struct{}
	advertise chan struct{}
	stopped   chan struct{}
	leftOver  int
}

// New returns an agent that serves a role with a handler. Settings that are not options come from the environment, so that
// the same program runs on a laptop and in a cluster. It fails with INVALID_ARGUMENT if a name is one that registries
// refuse, or a variable has an invalid value.
func New(role string, handler Handler, given ...Option) (*Server, error) {
	if handler == nil {
		return nil, archon.NewError(archon.ReasonFailedPrecondition, "agent "+role+" has no handler")
	}
	id := make([]byte, 6)
	if _, err := rand.Read(id); err != nil {
		return nil, archon.ToError(err, "")
	}
	o := &options{maxWaiting: 100, registration: &registryv1.Registration{
		Role: role, InstanceId: role + "-" + hex.EncodeToString(id), Version: "0.1.0", MaxTasks: 8,
	}}
	for _, option := range given {
		option(o)
	}
	if o.settings == nil {
		settings, err := SettingsFromEnvironment()
		if err != nil {
			return nil, err
		}
		o.settings = &settings
	}
	settings := *o.settings
	for _, change := range o.change {
		change(&settings)
	}
	settings.complete()
	settings.apply(o.registration)
	if err := checkNames(o.registration); err != nil {
		return nil, err
	}
	owner, err := toolowner.New(o.shared)
	if err != nil {
		return nil, err
	}
	o.registration.Tools = toolowner.WithShared(o.registration.GetTools(), owner.Advertised())
	s := &Server{
		role: role, instanceID: o.registration.GetInstanceId(), settings: settings, handler: handler,
		maxWaiting: o.maxWaiting, health: o.health, workers: newWorkers(), tools: owner, registration: o.registration,
		direct: newDirectInbox(role, o.registration.GetProfile().GetMessageTypes(), o.onDirect),
	}
	if o.onMessage != nil {
		s.handler = withMessages(handler, o.onMessage, o.topics)
	}
	s.bid = o.bid
	if s.bid == nil {
		s.bid = bidOfProfile(o.registration)
	}
	s.table = newAttemptTable(s.credit)
	return s, nil
}

var (
	roleName       = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	capabilityName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	versionName    = regexp.MustCompile(`^([0-9]{1,9}(\.[0-9]{1,9}){0,5})?$`)
)

func checkNames(registration *registryv1.Registration) error {
	roles := []string{registration.GetRole()}
	for _, edge := range registration.GetDependsOn() {
		roles = append(roles, edge.GetRole())
	}
	for _, role := range roles {
		if !roleName.MatchString(role) {
			return archon.NewError(archon.ReasonInvalidArgument, fmt.Sprintf("invalid role name '%s': use 1 to 63 lower case "+
				"letters a to z, digits and dashes, beginning with a letter", cut(role, 80)), archon.WithViolation("role", "invalid name"))
		}
	}
	for _, capability := range registration.GetCapabilities() {
		if !capabilityName.MatchString(capability.GetId()) {
			return archon.NewError(archon.ReasonInvalidArgument, fmt.Sprintf("invalid capability '%s': use 1 to 128 lower case "+
				"letters a to z, digits, dots, dashes and underscores, beginning with a letter or a digit", cut(capability.GetId(), 80)))
		}
	}
	if !versionName.MatchString(registration.GetVersion()) {
		return archon.NewError(archon.ReasonInvalidArgument, fmt.Sprintf("invalid version '%s': use dotted numbers, such as 1.2.0",
			cut(registration.GetVersion(), 80)))
	}
	if registration.GetMaxTasks() < 1 {
		return archon.NewError(archon.ReasonInvalidArgument, "an agent runs at least one task at a time")
	}
	return nil
}

// Role returns the role that the agent serves.
func (s *Server) Role() string { return s.role }

// InstanceID returns the id of this instance, new with each start of the process.
func (s *Server) InstanceID() string { return s.instanceID }

// Address returns host:port as bound; empty before Start, and of an agent that is attached.
func (s *Server) Address() string {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.grpc == nil {
		return ""
	}
	return s.grpc.Address()
}

// Settings returns the settings of the agent.
func (s *Server) Settings() Settings { return s.settings }

// SharedTools returns the tools that other agents may lease and execute here: share further ones, or revoke them.
func (s *Server) SharedTools() *SharedTools { return &SharedTools{s.tools} }

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
	err := s.begin(ctx)
	if err != nil {
		s.shutDown(0)
	}
	return err
}

func (s *Server) begin(ctx context.Context) error {
	if s.settings.Attach != "" {
		attach, err := newAttacher(s)
		if err != nil {
			return err
		}
		s.attach = attach
		attach.start()
		return nil
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
	if s.handle, err = s.client.Register(ctx, registration, keys.Tell); err != nil {
		return err
	}
	s.advertise = make(chan struct{})
	go s.keepAdvertised()
	return nil
}

// Registered reports whether the registry is known to hold the registration.
func (s *Server) Registered() bool {
	s.lifecycle.Lock()
	handle := s.handle
	s.lifecycle.Unlock()
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
	s.mu.Lock()
	for _, a := range s.table.attempts {
		a.sink = nil
		a.cancel(false)
	}
	for a := range s.table.running {
		a.sink = nil
		a.cancel(false)
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

// The methods below are called with the lock.

func (s *Server) streamBegan(attached bool) *session {
	var waiting []*session
	for _, each := range s.all {
		if each.orchestratorID == "" && !each.queue.Closed() {
			waiting = append(waiting, each)
		}
	}
	if len(waiting) >= maxUnopened {
		waiting[0].end(exhausted("too many streams wait for Open"))
	}
	began := newSession(s, attached)
	s.all = append(s.all, began)
	return began
}

// sessionOpened ends an older stream of the same orchestrator and splits the capacity anew.
func (s *Server) sessionOpened(opened *session, orchestratorID string, agreed map[string]bool) error {
	others := 0
	for _, other := range s.sessions {
		if other.orchestratorID != orchestratorID {
			others++
		}
	}
	if others >= maxSessions {
		return exhausted(fmt.Sprintf("this instance has %d sessions, which is its limit", others))
	}
	kept := s.sessions[:0:0]
	for _, older := range s.sessions {
		if older.orchestratorID == orchestratorID {
			older.end(replaced(orchestratorID))
		} else {
			kept = append(kept, older)
		}
	}
	opened.orchestratorID, opened.agreed = orchestratorID, agreed
	s.sessions = append(kept, opened)
	opened.announced = s.share() // by Ready
	opened.window.set(opened.announced, time.Now())
	return nil
}

// streamEnded removes a stream. Its attempts continue and wait to be adopted on another one.
func (s *Server) streamEnded(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = without(s.all, ended)
	s.sessions = without(s.sessions, ended)
	for _, a := range s.table.attempts {
		if a.sink == &ended.sink {
			a.sink = nil
		}
	}
	s.table.changed()
}

func without(sessions []*session, ended *session) []*session {
	kept := sessions[:0:0]
	for _, each := range sessions {
		if each != ended {
			kept = append(kept, each)
		}
	}
	return kept
}

func (s *Server) credit() {
	share := s.share()
	for _, each := range s.sessions {
		if each.announced != share {
			each.window.set(share, time.Now())
			each.credit(share, s.waitingShare())
		}
	}
}

func (s *Server) capacity() int { return int(s.registration.GetMaxTasks()) }

func (s *Server) share() int {
	room := s.capacity() - len(s.table.abandoned)
	if s.draining || room <= 0 || s.table.parkedFull() {
		return 0
	}
	return max(1, room/max(1, len(s.sessions)))
}

func (s *Server) waitingShare() int { return max(1, s.maxWaiting/max(1, len(s.sessions))) }

// refusal returns the error that refuses another task; nil if there is a slot. superseded is the attempt that it replaces,
// from the session that it comes from: besides others, a session gets its own share only.
func (s *Server) refusal(superseded *attempt, from *session) *archon.Error {
	if s.draining {
		return draining()
	}
	if s.table.parkedFull() {
		return noCapacity()
	}
	if from != nil && len(s.sessions) > 1 {
		own, waiting := 0, 0
		for a := range s.table.running {
			if a.sink == &from.sink && a.working() && a != superseded {
				own++
				if a.waiting() {
					waiting++
				}
			}
		}
		if own-min(s.waitingShare(), waiting) >= from.window.allowed(time.Now()) {
			return noCapacity()
		}
	}
	slots := max(s.capacity(), len(s.sessions))
	if len(s.table.running) < slots {
		return nil
	}
	running, waiting := 0, 0
	for a := range s.table.running {
		if a == superseded {
			continue
		}
		running++
		if a.waiting() {
			waiting++
		}
	}
	if running-min(s.maxWaiting, waiting) >= slots {
		return noCapacity()
	}
	return nil
}

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
