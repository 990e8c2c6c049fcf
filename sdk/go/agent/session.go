package agent

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

const (
	protocol          = 1
	leastMessageBytes = 128 << 10        // that an orchestrator must take: failures and deltas must fit
	openTimeout       = 10 * time.Second // that a stream may stay without Open
	unreadTimeout     = 5 * time.Second  // that the last frames of a stream may wait to be read
	maxErrors         = 10_000           // errors that may wait on a stream
	maxLogged         = 200              // characters of an orchestrator's text in the log
)

// sink is where the frames of an attempt go: the stream of a session, or a single RunTask call.
type sink struct {
	queue          *frames.Queue
	orchestratorID string // empty before Open, and of a RunTask
	agreed         map[string]bool
	peerLimit      int
	parkTTL        time.Duration
}

func (s *sink) put(taskID string, frame *agentv1.AgentFrame, droppable bool) {
	encoded, err := frames.Encode(taskID, frame)
	if err != nil {
		slog.Error("a frame cannot be encoded", "error", err)
		return
	}
	encoded.Droppable = droppable
	s.queue.Put(encoded)
}

// session is the agent's end of one orchestrator's stream, as long as the stream lives. The server's lock guards it.
type session struct {
	sink
	server       *Server
	attached     bool
	announced    int // the credit that the orchestrator was told; -1 if it may have lowered its window since
	window       shareWindow
	silenceLimit time.Duration
	began, heard time.Time
	closedAt     time.Time
	complained   bool
	err          error
	opened       chan struct{} // closed once Open has been accepted
	stuck        chan struct{} // closed to break the stream off
}

func newSession(server *Server, attached bool) *session {
	now := time.Now()
	return &session{
		sink:   sink{queue: frames.NewQueue(), peerLimit: frames.MaxCheckedBytes, parkTTL: defaultParkTTL},
		server: server, attached: attached, announced: -1, silenceLimit: defaultSilenceLimit, began: now, heard: now,
		opened: make(chan struct{}), stuck: make(chan struct{}),
	}
}

// end ends the stream after the frames that wait, with an error, or with OK if that is nil.
func (s *session) end(err error) {
	if s.err == nil && !s.queue.Closed() {
		s.err = err
	}
	s.queue.Close()
}

// receive takes a message of the stream. The caller holds no lock.
func (s *session) receive(message []byte) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.queue.Closed() {
		return
	}
	s.heard = time.Now()
	if err := s.message(message); err != nil {
		s.end(archon.ToError(err, ""))
	}
}

func (s *session) message(message []byte) error {
	if frames.HasTooMany(message) {
		return exhausted("a message has at most " + strconv.Itoa(frames.MaxFrames) + " frames")
	}
	decoded := &agentv1.SessionRequest{}
	if proto.Unmarshal(message, decoded) == nil {
		for _, frame := range decoded.GetFrames() {
			if err := s.frame(frame); err != nil {
				return err
			}
		}
		return nil
	}
	// Decodes frame by frame a message that holds a broken frame, so that its neighbours are served.
	var fatal error
	err := frames.Split(message, func(raw []byte) bool {
		frame := &agentv1.OrchestratorFrame{}
		if proto.Unmarshal(raw, frame) != nil {
			fatal = s.refuse(frames.TaskOf(raw), archon.NewError(archon.ReasonMalformedMessage,
				"the frame is not valid protobuf, or a string in it is not UTF-8"))
		} else {
			fatal = s.frame(frame)
		}
		return fatal == nil
	})
	if err != nil && fatal == nil {
		fatal = s.refuse(nil, archon.NewError(archon.ReasonMalformedMessage, "the message cannot be split into frames"))
	}
	return fatal
}

// frame serves one frame. An error that it returns ends the stream; any other error is answered by a failure.
func (s *session) frame(frame *agentv1.OrchestratorFrame) (fatal error) {
	err := s.serve(frame)
	if err == nil {
		return nil
	}
	var ends *streamError
	if errors.As(err, &ends) {
		return ends
	}
	return s.refuse(frame.GetTask(), archon.ToError(err, ""))
}

func (s *session) serve(frame *agentv1.OrchestratorFrame) error {
	if open, ok := frame.GetFrame().(*agentv1.OrchestratorFrame_Open); ok {
		return s.open(open.Open)
	}
	switch {
	case s.orchestratorID == "":
		return archon.NewError(archon.ReasonSessionNotOpen, "the first frame of a session is Open")
	case frame.Task != nil:
		return s.taskFrame(frame)
	}
	return s.sessionFrame(frame)
}

// refuse answers a frame by a failure. It returns an error that ends the stream if too many wait.
func (s *session) refuse(ref *commonv1.TaskRef, err *archon.Error) error {
	frame := &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Failure{Failure: err.ToFailure()}}
	if ref != nil && len([]rune(ref.GetTaskId())) <= maxID && len([]rune(ref.GetRunId())) <= maxID {
		frame.Task = ref
	}
	return s.putError(frame)
}

func (s *session) putError(frame *agentv1.AgentFrame) error {
	if s.queue.Len() >= maxErrors {
		return exhausted("the orchestrator does not read its stream")
	}
	s.put(frame.GetTask().GetTaskId(), frame, false)
	return nil
}

func (s *session) open(open *agentv1.Open) error {
	server := s.server
	if s.orchestratorID != "" {
		return archon.NewError(archon.ReasonSessionAlreadyOpen, "this session is already open")
	}
	if open.GetInstanceId() != server.instanceID {
		return &streamError{archon.NewError(archon.ReasonWrongInstance,
			"this is "+server.instanceID+", not "+cut(open.GetInstanceId(), maxID),
			archon.WithMetadata("instance_id", server.instanceID))}
	}
	if open.GetProtocol() < protocol {
		return &streamError{archon.NewError(archon.ReasonProtocolMismatch, "this agent speaks protocol "+
			strconv.Itoa(protocol)+", the orchestrator "+strconv.Itoa(int(open.GetProtocol())))}
	}
	if n := len([]rune(open.GetOrchestratorId())); n < 1 || n > maxID {
		return invalid("open.orchestrator_id", "must name the orchestrator's process in 1 to "+strconv.Itoa(maxID)+" characters")
	}
	if most := open.GetMaxMessageBytes(); most != 0 {
		if most < leastMessageBytes {
			return invalid("open.max_message_bytes", "at least "+strconv.Itoa(leastMessageBytes))
		}
		s.peerLimit = min(frames.MaxCheckedBytes, checkedLimit(most))
		s.queue.LimitBatch(min(frames.SoftBatchBytes, s.peerLimit/2))
	}
	s.silenceLimit, s.parkTTL = silenceLimit(open), parkTTL(open)
	agreed, offered := map[string]bool{}, map[string]bool{}
	for _, feature := range open.GetFeatures() {
		offered[feature] = true
	}
	names := make([]string, 0, len(frames.Features))
	for _, feature := range frames.Features {
		if offered[feature] {
			agreed[feature] = true
			names = append(names, feature)
		}
	}
	if err := server.sessionOpened(s, open.GetOrchestratorId(), agreed); err != nil {
		return err
	}
	s.put("", &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Ready{Ready: &agentv1.Ready{
		InstanceId: server.instanceID, Protocol: protocol, Features: names, MaxTasks: int32(s.announced),
		MaxWaiting: int32(server.waitingShare()), MaxMessageBytes: frames.MaxCheckedBytes, Role: server.role,
	}}}, false)
	server.credit()
	if server.draining {
		s.drain()
	}
	close(s.opened)
	return nil
}

// credit announces how many tasks may be in flight on this session, if the number has changed.
func (s *session) credit(maxTasks, maxWaiting int) {
	if maxTasks == s.announced || !s.agreed["credit"] {
		return
	}
	s.announced = maxTasks
	s.put("", &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Credit{
		Credit: &agentv1.Credit{MaxTasks: int32(maxTasks), MaxWaiting: int32(maxWaiting)},
	}}, false)
}

func (s *session) drain() {
	if s.agreed["drain"] {
		s.put("", &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Drain{
			Drain: &agentv1.Drain{Reason: "the agent is stopping"},
		}}, false)
	}
}

func (s *session) sessionFrame(frame *agentv1.OrchestratorFrame) error {
	switch arm := frame.GetFrame().(type) {
	case *agentv1.OrchestratorFrame_Heartbeat:
		s.put("", &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Heartbeat{
			Heartbeat: &agentv1.Heartbeat{Echo: arm.Heartbeat.GetCounter()},
		}}, true)
		s.flushAcks()
	case *agentv1.OrchestratorFrame_Failure:
		s.complain("the orchestrator refused a frame", arm.Failure.GetMessage())
	case *agentv1.OrchestratorFrame_Drain:
		slog.Info("the orchestrator is draining", "orchestrator", s.orchestratorID, "reason", cut(arm.Drain.GetReason(), maxLogged))
	default:
		return unknownFrame()
	}
	return nil
}

// complain logs an orchestrator's refusal, once per stream: it must not fill the log.
func (s *session) complain(what, why string) {
	level := slog.LevelWarn
	if s.complained {
		level = slog.LevelDebug
	}
	s.complained = true
	slog.Log(context.Background(), level, what, "why", cut(why, maxLogged))
}

// flushAcks sends the acks that no other frame has carried since the last heartbeat.
func (s *session) flushAcks() {
	for _, a := range s.server.table.attempts {
		if a.sink == &s.sink && a.channel.AckOwed {
			s.queue.Put(a.channel.Stamp(nil, false))
		}
	}
}

// check ends a stream that is silent, and breaks one off whose last frames are not read. Called from time to time.
func (s *session) check(now time.Time) {
	if s.queue.Closed() {
		if s.closedAt.IsZero() {
			s.closedAt = now
		} else if now.Sub(s.closedAt) >= unreadTimeout {
			s.breakOff()
		}
		return
	}
	silent := now.Sub(s.heard) > max(10*time.Second, 5*s.silenceLimit)
	if s.orchestratorID == "" {
		silent = !s.attached && now.Sub(s.began) > openTimeout
	}
	if silent {
		s.end(archon.NewError(archon.ReasonUnavailable, "no frames came from the orchestrator"))
	}
}

func (s *session) breakOff() {
	select {
	case <-s.stuck:
	default:
		close(s.stuck)
	}
}

// isStuck reports whether the stream was broken off.
func (s *session) isStuck() bool {
	select {
	case <-s.stuck:
		return true
	default:
		return false
	}
}

func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most])
}
