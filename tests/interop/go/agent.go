// A full member of the mesh that uses generated stubs only, by the rules of docs/contract.md. Its work is in designer.go.
package main

import (
	"context"
	"errors"
	"log"
	"slices"
	"strconv"
	"sync"
	"time"

	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	protocol   = 1
	softBatch  = 256 << 10
	hardCap    = 4 << 20
	mostQueued = 2000 // above this, deltas are dropped
	mostEpochs = 10000
)

var features = []string{"cancel", "park", "adopt", "credit", "progress", "record", "drain"}

var errCanceled, errTimeout = errors.New("the task was cancelled"), errors.New("the task's time was over")

type key struct {
	id      string
	attempt int32
}

// task is an attempt, kept from its assignment until its result is acked. It belongs to the agent, not to a stream.
type task struct {
	ref            *commonv1.TaskRef // never changed in place: queued frames share it
	session        *session          // nil without a stream
	halt           context.CancelCauseFunc
	timer          *time.Timer // ends the work, later the parking of its result
	working        bool
	sent, received int64
	ackOwed        bool
	unacked        []*agentv1.AgentFrame
	written        int64 // bytes of text so far
}

// session is a stream of an orchestrator, with the queue of frames for its only writer.
type session struct {
	orchestrator string // empty before Open
	agreed       []string
	frames       []*agentv1.AgentFrame
	ended        bool
	err          error
	limit        int
	parkTTL      time.Duration
	told         int32
	silence      *time.Timer
	silenceLimit time.Duration
}

// agent guards its state with a lock. No goroutine waits for the network or for a handler while it holds the lock.
type agent struct {
	agentv1.UnimplementedAgentServiceServer
	registration *registryv1.Registration
	mu           sync.Mutex
	news         *sync.Cond
	tasks        map[key]*task
	epochs       map[string]int64
	sessions     []*session
	draining     bool
}

func keyOf(ref *commonv1.TaskRef) key { return key{ref.GetTaskId(), ref.GetAttempt()} }

func (a *agent) Describe(context.Context, *agentv1.DescribeRequest) (*agentv1.DescribeResponse, error) {
	return &agentv1.DescribeResponse{Registration: a.registration, Protocols: []int32{protocol}, Features: features}, nil
}

// Session reads in another goroutine, which never waits for a handler, and writes in this one.
func (a *agent) Session(stream grpc.BidiStreamingServer[agentv1.SessionRequest, agentv1.SessionResponse]) error {
	s := &session{limit: hardCap, parkTTL: 25 * time.Hour, silenceLimit: 2 * time.Second}
	s.silence = time.AfterFunc(10*time.Second, func() { a.locked(func() { a.end(s, errSilent) }) })
	defer a.locked(func() { a.left(s) })
	go func() {
		for {
			message, err := stream.Recv()
			a.locked(func() {
				if err != nil {
					a.end(s, nil)
					return
				}
				s.silence.Reset(5 * s.silenceLimit)
				for _, frame := range message.GetFrames() {
					a.frame(s, frame)
				}
			})
			if err != nil {
				return
			}
		}
	}()
	for {
		frames, err := a.batch(s)
		if len(frames) == 0 {
			return err
		}
		if err := stream.Send(&agentv1.SessionResponse{Frames: frames}); err != nil {
			return err
		}
	}
}

func (a *agent) locked(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
}

// batch waits for frames. If it returns none, the stream ends with the error, or with OK if that is nil.
func (a *agent) batch(s *session) ([]*agentv1.AgentFrame, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(s.frames) == 0 && !s.ended {
		a.news.Wait()
	}
	taken, size := 0, 0
	for taken < len(s.frames) {
		size += proto.Size(s.frames[taken])
		if taken > 0 && size > min(softBatch, s.limit/2) {
			break
		}
		taken++
	}
	frames := s.frames[:taken:taken]
	s.frames = s.frames[taken:]
	return frames, s.err
}

func (a *agent) put(s *session, frame *agentv1.AgentFrame) {
	if s != nil && !s.ended {
		s.frames = append(s.frames, frame)
		a.news.Broadcast()
	}
}

func (a *agent) end(s *session, err error) {
	if !s.ended {
		s.ended, s.err = true, err
		a.news.Broadcast()
	}
}

func (a *agent) left(s *session) {
	s.ended = true
	s.silence.Stop()
	a.sessions = slices.DeleteFunc(a.sessions, func(one *session) bool { return one == s })
	for _, t := range a.tasks {
		if t.session == s {
			t.session = nil
		}
	}
	a.credit()
	a.news.Broadcast()
}

func (a *agent) share() int32 {
	if a.draining {
		return 0
	}
	return max(1, a.registration.GetMaxTasks()/int32(max(1, len(a.sessions))))
}

// credit sends each session its share of the capacity if it has changed.
func (a *agent) credit() {
	for _, s := range a.sessions {
		if share := a.share(); s.told != share && slices.Contains(s.agreed, "credit") {
			s.told = share
			a.put(s, &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Credit{Credit: &agentv1.Credit{MaxTasks: share}}})
		}
	}
}

func (a *agent) frame(s *session, f *agentv1.OrchestratorFrame) {
	switch arm := f.GetFrame().(type) {
	case *agentv1.OrchestratorFrame_Open:
		a.open(s, arm.Open)
		return
	}
	switch {
	case s.orchestrator == "":
		a.refuse(s, nil, failure(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_SESSION_NOT_OPEN))
	case f.GetTask() != nil:
		a.taskFrame(s, f)
	default:
		a.sessionFrame(s, f)
	}
}

func (a *agent) open(s *session, open *agentv1.Open) {
	switch {
	case s.orchestrator != "":
		a.refuse(s, nil, failure(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_SESSION_ALREADY_OPEN))
		return
	case open.GetInstanceId() != a.registration.GetInstanceId():
		a.end(s, ending(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WRONG_INSTANCE))
		return
	case open.GetProtocol() < protocol:
		a.end(s, ending(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_PROTOCOL_MISMATCH))
		return
	case open.GetOrchestratorId() == "":
		a.refuse(s, nil, failure(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT))
		return
	}
	if most := int(open.GetMaxMessageBytes()); most > 0 {
		s.limit = min(hardCap, most)
	}
	if open.GetParkTtl() != nil {
		s.parkTTL = open.GetParkTtl().AsDuration()
	}
	if open.GetSilenceLimit() != nil {
		s.silenceLimit = open.GetSilenceLimit().AsDuration()
	}
	s.orchestrator = open.GetOrchestratorId()
	for _, feature := range features {
		if slices.Contains(open.GetFeatures(), feature) {
			s.agreed = append(s.agreed, feature)
		}
	}
	for _, older := range slices.Clone(a.sessions) {
		if older.orchestrator == s.orchestrator {
			a.end(older, ending(codes.Aborted, commonv1.ErrorReason_ERROR_REASON_SESSION_REPLACED))
			a.sessions = slices.DeleteFunc(a.sessions, func(one *session) bool { return one == older })
		}
	}
	a.sessions = append(a.sessions, s)
	s.told = a.share()
	a.put(s, &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Ready{Ready: &agentv1.Ready{
		InstanceId: a.registration.GetInstanceId(), Protocol: protocol, Features: s.agreed,
		MaxTasks: s.told, MaxMessageBytes: hardCap,
	}}})
	a.credit()
}

func (a *agent) sessionFrame(s *session, f *agentv1.OrchestratorFrame) {
	switch arm := f.GetFrame().(type) {
	case *agentv1.OrchestratorFrame_Heartbeat:
		echo := &agentv1.Heartbeat{Echo: arm.Heartbeat.GetCounter()}
		a.put(s, &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Heartbeat{Heartbeat: echo}})
		for _, t := range a.tasks { // acks that no other frame has carried
			if t.session == s && t.ackOwed {
				a.send(t, &agentv1.AgentFrame{}, false)
			}
		}
	case *agentv1.OrchestratorFrame_Failure:
		log.Printf("refused: %s", arm.Failure)
	case *agentv1.OrchestratorFrame_Drain:
		log.Printf("orchestrator %s is going", s.orchestrator)
	default:
		a.refuse(s, nil, failure(codes.Unimplemented, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_FRAME))
	}
}

func (a *agent) reject(s *session, f *agentv1.OrchestratorFrame, why *commonv1.Failure) {
	reject := &agentv1.AgentFrame_Reject{Reject: &agentv1.Reject{Failure: why}}
	a.put(s, &agentv1.AgentFrame{Task: f.GetTask(), Sequence: 1, Ack: f.GetSequence(), Frame: reject})
}

func noCapacity() *commonv1.Failure {
	why := failure(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_NO_CAPACITY)
	why.RetryDelay = durationpb.New(200 * time.Millisecond)
	return why
}

func gap(expected int64) *commonv1.Failure {
	why := failure(codes.OutOfRange, commonv1.ErrorReason_ERROR_REASON_SEQUENCE_GAP)
	why.Metadata = map[string]string{"expected": strconv.FormatInt(expected, 10)}
	return why
}
