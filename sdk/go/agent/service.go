package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

// answerMargin is the part of a call's time that is kept for the answer to travel.
const answerMargin = 100 * time.Millisecond

// service is AgentService over gRPC.
type service struct {
	agentv1.UnimplementedAgentServiceServer
	server *Server
}

// Describe returns the current registration, the protocol and features of sessions, and the health of the tools.
func (v *service) Describe(context.Context, *agentv1.DescribeRequest) (*agentv1.DescribeResponse, error) {
	s := v.server
	response := &agentv1.DescribeResponse{
		Protocols: []int32{protocol}, Features: frames.Features, InputModes: []string{"text/plain"},
		OutputModes: []string{"text/plain"},
	}
	if s.health != nil {
		for _, each := range s.health() {
			response.Tools = append(response.Tools, each.proto())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	registration, _ := proto.Clone(s.registration).(*registryv1.Registration)
	running := int32(s.table.working())
	response.Registration, response.RunningTasks = registration, &running
	return response, nil
}

// Deliver takes in messages of another instance.
func (v *service) Deliver(ctx context.Context, request *agentv1.DeliverRequest) (*agentv1.DeliverResponse, error) {
	return v.server.direct.deliver(ctx, request)
}

// Session is a session: a reader, and a writer; the end of either ends the other.
func (v *service) Session(stream grpc.BidiStreamingServer[agentv1.SessionRequest, agentv1.SessionResponse]) error {
	return v.server.serveStream(stream.Context(), stream, false)
}

// messageStream is the part of a stream that a session uses, of a client or of a server.
type messageStream interface {
	RecvMsg(message any) error
	SendMsg(message any) error
}

// serveStream serves a session on a stream until it ends. The error is the one to end the stream with.
func (s *Server) serveStream(ctx context.Context, stream messageStream, attached bool) error {
	s.mu.Lock()
	own := s.streamBegan(attached)
	s.mu.Unlock()
	return s.serveSession(ctx, stream, own)
}

func (s *Server) serveSession(ctx context.Context, stream messageStream, own *session) error {
	defer s.streamEnded(own)
	written := make(chan struct{})
	s.streams.Add(2)
	go func() {
		defer s.streams.Done()
		defer own.queue.Close()
		for {
			raw := &frames.Raw{}
			if err := stream.RecvMsg(raw); err != nil {
				return // however a stream breaks, its tasks go on
			}
			own.receive(raw.Bytes)
			if own.queue.Closed() {
				return
			}
		}
	}()
	go func() {
		defer s.streams.Done()
		defer close(written)
		for {
			message := own.queue.Batch(ctx.Done())
			if message == nil || stream.SendMsg(&frames.Raw{Bytes: message}) != nil {
				return
			}
		}
	}()
	select {
	case <-written:
	case <-own.stuck:
	case <-ctx.Done():
	}
	own.queue.Close()
	if own.queue.Overflowed() {
		return exhausted("the orchestrator does not read its stream").cause
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return own.err
}

// RunTask is one task in one call, without an orchestrator. It takes a slot like any other and ends with its call.
func (v *service) RunTask(request *agentv1.RunTaskRequest, stream grpc.ServerStreamingServer[agentv1.RunTaskResponse]) error {
	task := request.GetTask()
	hasInput := false
	for _, part := range task.GetInput() {
		hasInput = hasInput || part.GetContent() != nil
	}
	if !hasInput {
		return archon.NewError(archon.ReasonInvalidArgument, "the task has no input",
			archon.WithViolation("task.input", "at least one part"))
	}
	if left, ok := archon.Remaining(stream.Context()); ok {
		left = max(0, left-answerMargin)
		if task.Remaining == nil || task.GetRemaining().AsDuration() > left {
			task.Remaining = durationpb.New(left)
		}
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	name := "direct-" + hex.EncodeToString(id)
	to := &sink{
		queue: frames.NewQueue(), agreed: map[string]bool{"progress": true}, peerLimit: frames.MaxCheckedBytes,
	}
	defer to.queue.Close()
	s := v.server
	s.mu.Lock()
	if refusal := s.refusal(nil, nil); refusal != nil {
		s.mu.Unlock()
		return refusal
	}
	a := newAttempt(s, &commonv1.TaskRef{TaskId: name, RunId: name, Attempt: 1}, to)
	s.table.add(a)
	a.start(task)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		a.cancel(true)
		s.table.drop(a)
	}()
	return pass(stream, to.queue)
}

// pass passes progress on, then one result.
func pass(stream grpc.ServerStreamingServer[agentv1.RunTaskResponse], queue *frames.Queue) error {
	for {
		message := queue.Batch(stream.Context().Done())
		if message == nil {
			if err := stream.Context().Err(); err != nil {
				return err
			}
			return archon.NewError(archon.ReasonUnavailable, "the agent stopped before the task was done")
		}
		decoded := &agentv1.SessionResponse{}
		if err := proto.Unmarshal(message, decoded); err != nil {
			return err
		}
		for _, frame := range decoded.GetFrames() {
			response := &agentv1.RunTaskResponse{}
			switch arm := frame.GetFrame().(type) {
			case *agentv1.AgentFrame_Progress:
				response.Event = &agentv1.RunTaskResponse_Progress{Progress: arm.Progress}
			case *agentv1.AgentFrame_Result:
				response.Event = &agentv1.RunTaskResponse_Result{Result: arm.Result}
			default:
				continue
			}
			if err := stream.Send(response); err != nil {
				return err
			}
			if response.GetResult() != nil {
				return nil
			}
		}
	}
}
