package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"sync"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
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
	address      string           // as bound
	handle       *registry.Handle // nil without a registration
	reached      bool             // whether an orchestrator has opened a session

	lifecycle sync.Mutex
	started   bool
	grpc      *grpcserver.Server
	client    *registry.Client
	attach    *attacher
	cancel    context.CancelFunc
	sweeping  chan struct{}
	advertise chan struct{}
	reaching  chan struct{} // closed once attachIfUnreached has ended; nil if it never began
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
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Settings returns the settings of the agent.
func (s *Server) Settings() Settings { return s.settings }

// SharedTools returns the tools that other agents may lease and execute here: share further ones, or revoke them.
func (s *Server) SharedTools() *SharedTools { return &SharedTools{s.tools} }

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
	s.reached = true
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
