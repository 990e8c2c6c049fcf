// Package archontest has test doubles for agents: Orchestrator is the orchestrator's end of an agent's session, driven frame
// by frame; Attacher is an orchestrator that agents attach to; Start starts an agent without a mesh.
//
//	server := archontest.Start(t, "cook", cook)
//	peer := archontest.Dial(t, server)
//	peer.Open()
//	ref := peer.Ref("task-1")
//	peer.Assign(ref, "Make lunch.")
//	result := peer.Result(ref)
package archontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

// Patience is how long methods wait, before they fail the test with the frames that came instead.
const Patience = 5 * time.Second

// Start starts an agent on a free port of this machine, which registers nowhere and reads no settings from the environment,
// and stops it at the end of the test.
func Start(t testing.TB, role string, handler agent.Handler, options ...agent.Option) *agent.Server {
	t.Helper()
	options = append([]agent.Option{agent.WithSettings(agent.Settings{})}, options...)
	server, err := agent.New(role, handler, options...)
	if err != nil {
		t.Fatalf("the agent cannot be made: %v", err)
	}
	if err := server.Start(context.Background()); err != nil {
		t.Fatalf("the agent cannot start: %v", err)
	}
	t.Cleanup(func() { server.Stop(0) })
	return server
}

// wire is a stream of a session, seen from the orchestrator.
type wire interface {
	SendMsg(message any) error
	RecvMsg(message any) error
}

// Orchestrator is one stream to an agent. It sends only the frames that the test sends: no heartbeats, no acks, no resends.
type Orchestrator struct {
	ID    string // of the orchestrator; set it before Open
	Epoch int64  // of the references that Ref makes

	t          testing.TB
	instanceID string
	wire       wire
	cancel     context.CancelFunc
	sent       map[string]int64

	mu     sync.Mutex
	frames []*agentv1.AgentFrame
	taken  map[int]bool
	news   chan struct{}
	over   bool
	err    error
}

// Dial opens a stream to an agent, which ends with the test.
func Dial(t testing.TB, server *agent.Server) *Orchestrator {
	t.Helper()
	return DialAddress(t, server.Address(), server.InstanceID())
}

// DialAddress opens a stream to the agent at an address.
func DialAddress(t testing.TB, address, instanceID string) *Orchestrator {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frames.NewCodec()), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := agentv1.NewAgentServiceClient(conn).Session(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	o := newOrchestrator(t, stream, instanceID, cancel)
	t.Cleanup(func() {
		o.Break()
		_ = conn.Close()
	})
	return o
}

func newOrchestrator(t testing.TB, stream wire, instanceID string, cancel context.CancelFunc) *Orchestrator {
	o := &Orchestrator{
		ID: "orchestrator-1", Epoch: 1, t: t, instanceID: instanceID, wire: stream, cancel: cancel, sent: map[string]int64{},
		taken: map[int]bool{}, news: make(chan struct{}),
	}
	go o.read()
	return o
}

func (o *Orchestrator) read() {
	for {
		raw := &frames.Raw{}
		err := o.wire.RecvMsg(raw)
		message := &agentv1.SessionResponse{}
		if err == nil {
			err = proto.Unmarshal(raw.Bytes, message)
		}
		o.mu.Lock()
		o.frames = append(o.frames, message.GetFrames()...)
		if err != nil {
			o.over = true
			if !errors.Is(err, io.EOF) {
				o.err = archon.ToError(err, "")
			}
		}
		close(o.news)
		o.news = make(chan struct{})
		o.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Break cancels the stream, as a broken connection does. Idempotent.
func (o *Orchestrator) Break() { o.cancel() }

// Opening returns an Open frame with all features.
func (o *Orchestrator) Opening() *agentv1.Open {
	return &agentv1.Open{OrchestratorId: o.ID, InstanceId: o.instanceID, Protocol: 1, Features: frames.Features}
}

// Open sends Open, with changes if there are any, and waits for Ready.
func (o *Orchestrator) Open(changes ...func(*agentv1.Open)) *agentv1.Ready {
	o.t.Helper()
	open := o.Opening()
	for _, change := range changes {
		change(open)
	}
	o.Send(&agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Open{Open: open}})
	return o.Receive("ready", nil).GetReady()
}

// Ref returns the reference of a first attempt at a task of the run run-1.
func (o *Orchestrator) Ref(taskID string) *commonv1.TaskRef {
	return &commonv1.TaskRef{TaskId: taskID, RunId: "run-1", Attempt: 1, Epoch: o.Epoch}
}

// Stamped sets the task and the next sequence of the attempt.
func (o *Orchestrator) Stamped(ref *commonv1.TaskRef, frame *agentv1.OrchestratorFrame) *agentv1.OrchestratorFrame {
	key := fmt.Sprint(ref.GetTaskId(), " ", ref.GetAttempt())
	o.sent[key]++
	frame.Task, frame.Sequence = ref, o.sent[key]
	return frame
}

// Send sends frames in one message, unchanged.
func (o *Orchestrator) Send(sent ...*agentv1.OrchestratorFrame) {
	o.t.Helper()
	data, err := proto.Marshal(&agentv1.SessionRequest{Frames: sent})
	if err != nil {
		o.t.Fatal(err)
	}
	o.SendRaw(data)
}

// SendRaw sends any bytes as one message.
func (o *Orchestrator) SendRaw(message []byte) {
	o.t.Helper()
	if err := o.wire.SendMsg(&frames.Raw{Bytes: message}); err != nil {
		o.t.Fatalf("the message cannot be sent: %v", err)
	}
}

// Assign assigns a task with a text, with changes of the assignment if there are any.
func (o *Orchestrator) Assign(ref *commonv1.TaskRef, text string, changes ...func(*agentv1.AssignTask)) {
	o.t.Helper()
	o.Send(o.Assignment(ref, text, changes...))
}

// Assignment returns the frame that Assign sends.
func (o *Orchestrator) Assignment(
	ref *commonv1.TaskRef, text string, changes ...func(*agentv1.AssignTask),
) *agentv1.OrchestratorFrame {
	assigned := &agentv1.AssignTask{Input: []*commonv1.Part{archon.TextPart(text).Proto()}}
	for _, change := range changes {
		change(assigned)
	}
	return o.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_AssignTask{AssignTask: assigned}})
}

// Within limits the time of an assignment.
func Within(limit time.Duration) func(*agentv1.AssignTask) {
	return func(assigned *agentv1.AssignTask) { assigned.Remaining = durationpb.New(limit) }
}

// Cancel cancels an attempt.
func (o *Orchestrator) Cancel(ref *commonv1.TaskRef, reason string) {
	o.t.Helper()
	o.Send(o.Stamped(ref, &agentv1.OrchestratorFrame{
		Frame: &agentv1.OrchestratorFrame_CancelTask{CancelTask: &agentv1.CancelTask{Reason: reason}},
	}))
}

// Adopt asks for an attempt; lastApplied is the last of the agent's frames that is in the journal.
func (o *Orchestrator) Adopt(ref *commonv1.TaskRef, lastApplied int64) {
	o.t.Helper()
	o.Send(&agentv1.OrchestratorFrame{Task: ref, Frame: &agentv1.OrchestratorFrame_AdoptTask{
		AdoptTask: &agentv1.AdoptTask{LastApplied: lastApplied},
	}})
}

// Ack acknowledges the frames of an attempt up to a sequence.
func (o *Orchestrator) Ack(ref *commonv1.TaskRef, sequence int64) {
	o.t.Helper()
	o.Send(&agentv1.OrchestratorFrame{Task: ref, Ack: sequence})
}

// Heartbeat sends a heartbeat with a number.
func (o *Orchestrator) Heartbeat(counter int64) {
	o.t.Helper()
	o.Send(&agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Heartbeat{Heartbeat: &agentv1.Heartbeat{Counter: counter}}})
}

// Receive waits for a frame with an arm (such as result; empty: a frame that is only an ack), of an attempt if ref is not nil.
// Each frame is returned once; frames with other arms stay available.
func (o *Orchestrator) Receive(arm string, ref *commonv1.TaskRef) *agentv1.AgentFrame {
	o.t.Helper()
	frame := o.find(arm, ref, time.Now().Add(Patience))
	if frame == nil {
		o.t.Fatalf("no frame %q came; there were [%s], the stream ended: %v, %v", arm, o.shown(), o.over, o.err)
	}
	return frame
}

// Never fails the test if a frame with an arm comes within a time.
func (o *Orchestrator) Never(arm string, ref *commonv1.TaskRef, within time.Duration) {
	o.t.Helper()
	if frame := o.find(arm, ref, time.Now().Add(within)); frame != nil {
		o.t.Fatalf("a frame %q came: %v", arm, frame)
	}
}

func (o *Orchestrator) find(arm string, ref *commonv1.TaskRef, deadline time.Time) *agentv1.AgentFrame {
	for {
		o.mu.Lock()
		for i, frame := range o.frames {
			if !o.taken[i] && armOf(frame) == arm && about(frame, ref) {
				o.taken[i] = true
				o.mu.Unlock()
				return frame
			}
		}
		news, over := o.news, o.over
		o.mu.Unlock()
		if over {
			return nil
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-news:
			timer.Stop()
		case <-timer.C:
			return nil
		}
	}
}

// Result waits for the result of an attempt, and acknowledges it.
func (o *Orchestrator) Result(ref *commonv1.TaskRef) *agentv1.TaskResult {
	o.t.Helper()
	frame := o.Receive("result", ref)
	o.Ack(frame.GetTask(), frame.GetSequence())
	return frame.GetResult()
}

// Text waits for the result of an attempt, acknowledges it, and returns the text of its answer; it fails the test if the
// attempt has not completed.
func (o *Orchestrator) Text(ref *commonv1.TaskRef) string {
	o.t.Helper()
	result := o.Result(ref)
	if result.GetState() != commonv1.TaskState_TASK_STATE_COMPLETED {
		o.t.Fatalf("the attempt ended with %v", result)
	}
	return archon.TextOf(result.GetOutput())
}

// Failure waits for a failure frame, and returns it as an error.
func (o *Orchestrator) Failure() *archon.Error {
	o.t.Helper()
	return archon.FromFailure(o.Receive("failure", nil).GetFailure())
}

// Delegated answers a delegation with a result.
func (o *Orchestrator) Delegated(ref *commonv1.TaskRef, delegationID string, result *agentv1.TaskResult) {
	o.t.Helper()
	o.Send(o.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_DelegateResult{
		DelegateResult: &agentv1.DelegateResult{DelegationId: delegationID, Result: result},
	}}))
}

// Completed returns a result with a text.
func Completed(text string) *agentv1.TaskResult {
	return &agentv1.TaskResult{
		State: commonv1.TaskState_TASK_STATE_COMPLETED, Output: []*commonv1.Part{archon.TextPart(text).Proto()},
	}
}

// FailedWith returns a result with a failure.
func FailedWith(err *archon.Error) *agentv1.TaskResult {
	return &agentv1.TaskResult{State: commonv1.TaskState_TASK_STATE_FAILED, Failure: err.ToFailure()}
}

// Ended waits for the agent to end the stream, and returns the error; nil if it ended with OK.
func (o *Orchestrator) Ended() error {
	o.t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		o.mu.Lock()
		news, over, err := o.news, o.over, o.err
		o.mu.Unlock()
		if over {
			return err
		}
		select {
		case <-news:
		case <-timer.C:
			o.t.Fatalf("the stream did not end; there were [%s]", o.shown())
		}
	}
}

func (o *Orchestrator) shown() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := make([]string, len(o.frames))
	for i, frame := range o.frames {
		names[i] = armOf(frame)
	}
	return strings.Join(names, " ")
}

func armOf(frame *agentv1.AgentFrame) string {
	reflected := frame.ProtoReflect()
	arm := reflected.WhichOneof(reflected.Descriptor().Oneofs().ByName("frame"))
	if arm == nil {
		return ""
	}
	return string(arm.Name())
}

func about(frame *agentv1.AgentFrame, ref *commonv1.TaskRef) bool {
	return ref == nil || (frame.GetTask().GetTaskId() == ref.GetTaskId() && frame.GetTask().GetAttempt() == ref.GetAttempt())
}
