package agent_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	archontest "github.com/archon-mesh/archon/sdk/go/testing"
)

func TestAnAttachedAgentKeepsOneSpareStream(t *testing.T) {
	mesh := archontest.NewAttacher(t)
	server := mesh.Start("cook", echo, agent.WithDescription("cooks"))
	first, ready := mesh.Spare()
	if ready.GetRegistration().GetRole() != "cook" || ready.GetRegistration().GetDescription() != "cooks" ||
		ready.GetInstanceId() != server.InstanceID() || ready.GetRegistration().GetAddress() != "" {
		t.Fatalf("the first frame is %v", ready)
	}
	time.Sleep(50 * time.Millisecond)
	if mesh.HasSpare() {
		t.Fatal("there are two spare streams")
	}
	if answer := first.Open(); answer.GetMaxTasks() != 8 || answer.GetRegistration() != nil {
		t.Fatalf("ready is %v", answer)
	}
	second, _ := mesh.Spare()
	second.ID = "orchestrator-2"
	second.Open()
	ref := second.Ref("task-1")
	second.Assign(ref, "attached")
	if text := second.Text(ref); text != "attached" {
		t.Fatalf("the answer is %q", text)
	}
	mesh.Spare()
}

func TestAnAttachedAgentAttachesAgainAndIsAdopted(t *testing.T) {
	mesh := archontest.NewAttacher(t)
	mesh.Start("cook", forever)
	peer, _ := mesh.Spare()
	peer.Open()
	spare, _ := mesh.Spare()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Heartbeat(1)
	peer.Receive("heartbeat", nil)
	peer.Break()
	spare.Break()
	next, _ := mesh.Spare()
	next.Open()
	next.Adopt(ref, 0)
	next.Receive("adopted", ref)
}

func TestLeavingAnAttachedAgentEndsItsStreams(t *testing.T) {
	mesh := archontest.NewAttacher(t)
	server := mesh.Start("cook", echo)
	peer, _ := mesh.Spare()
	peer.Open()
	spare, _ := mesh.Spare()
	began := time.Now()
	server.Stop(time.Second)
	peer.Receive("drain", nil)
	for _, stream := range []*archontest.Orchestrator{peer, spare} {
		if err := stream.Ended(); err != nil {
			t.Fatalf("a stream ended with %v", err)
		}
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Fatalf("it took %v", took)
	}
}

func TestAnAgentThatMayNotAttachFailsAtItsStart(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mesh := grpc.NewServer()
	agentv1.RegisterAttachServiceServer(mesh, agentv1.UnimplementedAttachServiceServer{})
	go func() { _ = mesh.Serve(listener) }()
	t.Cleanup(mesh.Stop)
	server, err := agent.New("cook", echo, agent.WithSettings(agent.Settings{Attach: listener.Addr().String()}))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(context.Background()); !errors.Is(err, archon.ErrUnimplemented) {
		t.Fatalf("the start ended with %v", err)
	}
}
