package archontest

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/archon-mesh/archon/sdk/go/agent"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

// Attacher is an orchestrator that agents attach to.
type Attacher struct {
	t       testing.TB
	address string
	server  *grpc.Server
	streams chan *Orchestrator
}

// NewAttacher serves on a free port until the end of the test.
func NewAttacher(t testing.TB) *Attacher {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &Attacher{
		t: t, address: listener.Addr().String(), server: grpc.NewServer(grpc.ForceServerCodecV2(frames.NewCodec())),
		streams: make(chan *Orchestrator, 100),
	}
	agentv1.RegisterAttachServiceServer(a.server, &attachService{attacher: a})
	go func() { _ = a.server.Serve(listener) }()
	t.Cleanup(a.server.Stop)
	return a
}

// Address returns host:port, for agent.WithAttach.
func (a *Attacher) Address() string { return a.address }

// Start starts an agent that attaches, and stops it at the end of the test.
func (a *Attacher) Start(role string, handler agent.Handler, options ...agent.Option) *agent.Server {
	a.t.Helper()
	return Start(a.t, role, handler, append(options, agent.WithAttach(a.address))...)
}

// Spare waits for a stream that has had no Open yet, and returns it with its first frame, ready with a registration.
func (a *Attacher) Spare() (*Orchestrator, *agentv1.Ready) {
	a.t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case stream := <-a.streams:
		ready := stream.Receive("ready", nil).GetReady()
		stream.instanceID = ready.GetInstanceId()
		return stream, ready
	case <-timer.C:
		a.t.Fatal("no agent has attached")
		return nil, nil
	}
}

// HasSpare reports whether a further stream waits.
func (a *Attacher) HasSpare() bool { return len(a.streams) > 0 }

type attachService struct {
	agentv1.UnimplementedAttachServiceServer
	attacher *Attacher
}

// Attach serves a stream until the test breaks it, or the agent ends it.
func (s *attachService) Attach(stream grpc.BidiStreamingServer[agentv1.AttachRequest, agentv1.AttachResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	o := newOrchestrator(s.attacher.t, stream, "", cancel)
	s.attacher.streams <- o
	if err := stream.SendHeader(metadata.MD{}); err != nil { // the agent is registered
		return err
	}
	for {
		o.mu.Lock()
		news, over := o.news, o.over
		o.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
