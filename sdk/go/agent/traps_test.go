package agent_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	archontest "github.com/archon-mesh/archon/sdk/go/testing"
)

func TestAPeerThatDoesNotReadDoesNotHoldUpTheEnd(t *testing.T) {
	server := archontest.Start(t, "cook", func(context.Context, *agent.Task) (agent.Answer, error) {
		return agent.Text(strings.Repeat("x", 3<<20)), nil
	})
	conn, err := grpc.NewClient("passthrough:///"+server.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := agentv1.NewAgentServiceClient(conn).Session(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	frames := []*agentv1.OrchestratorFrame{{Frame: &agentv1.OrchestratorFrame_Open{Open: &agentv1.Open{
		OrchestratorId: "o", InstanceId: server.InstanceID(), Protocol: 1, Features: []string{"park"},
	}}}}
	sender := archontest.Dial(t, server) // makes frames only
	for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
		frames = append(frames, sender.Assignment(sender.Ref(id), ""))
	}
	if err := stream.Send(&agentv1.SessionRequest{Frames: frames}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	server.Stop(100 * time.Millisecond)
	if took := time.Since(began); took > 4*time.Second {
		t.Fatalf("it took %v", took)
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	time.Sleep(50 * time.Millisecond)
	before := runtime.NumGoroutine()
	for range 3 {
		server, err := agent.New("cook", forever, agent.WithSettings(agent.Settings{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		peer := archontest.Dial(t, server)
		peer.Open()
		peer.Assign(peer.Ref("task-1"), "", archontest.Within(time.Hour))
		peer.Heartbeat(1)
		peer.Receive("heartbeat", nil)
		server.Stop(0)
		peer.Break()
	}
	deadline := time.Now().Add(5 * time.Second)
	// The connections of the peers are closed at the end of the test: each has a few goroutines.
	for runtime.NumGoroutine() > before+3*8 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	for _, name := range []string{"agent.(*session)", "agent.(*attempt)", "agent.(*workers)", "agent.(*Server)", "serveSession"} {
		if strings.Contains(string(text), name) {
			t.Fatalf("a goroutine of %s is left:\n%s", name, text)
		}
	}
}

func TestANameWithSeveralAddressesIsDialled(t *testing.T) {
	registry, address := startRegistry(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	archontest.Start(t, "cook", echo, agent.WithRegistry("localhost:"+port)) // ::1 refuses, 127.0.0.1 takes
	registry.wait(t, "register")
}

func TestAConnectionThatTheRegistryEndsIsReplaced(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := &fakeRegistry{calls: make(chan string, 1000), server: grpc.NewServer(grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 300 * time.Millisecond, MaxConnectionAgeGrace: 50 * time.Millisecond,
	}))}
	registryv1.RegisterRegistryServiceServer(registry.server, registry)
	go func() { _ = registry.server.Serve(listener) }()
	t.Cleanup(registry.server.Stop)
	archontest.Start(t, "cook", echo, agent.WithRegistry(listener.Addr().String()))
	for range 6 { // more than one connection lives
		registry.wait(t, "renew")
	}
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	registry, address := startRegistry(t)
	_, port, _ := net.SplitHostPort(address)
	archontest.Start(t, "cook", echo, agent.WithRegistry("localhost:"+port))
	registry.wait(t, "register")
}

func TestAnAgentServesOnIPv6(t *testing.T) {
	if listener, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6")
	} else {
		_ = listener.Close()
	}
	server := archontest.Start(t, "cook", echo, agent.WithAddress("[::1]", 0))
	if !strings.HasPrefix(server.Address(), "[::1]:") {
		t.Fatalf("the address is %s", server.Address())
	}
	archontest.Dial(t, server).Open()
}

func TestAPortThatIsTakenIsATypedError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken, _ := listener.Addr().(*net.TCPAddr)
	server, err := agent.New("cook", echo, agent.WithSettings(agent.Settings{Port: taken.Port}))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(context.Background()); !errors.Is(err, archon.ErrUnavailable) {
		t.Fatalf("the start ended with %v", err)
	}
}

func TestListeningOffLoopbackNeedsTLS(t *testing.T) {
	server, err := agent.New("cook", echo, agent.WithSettings(agent.Settings{Host: "0.0.0.0"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(context.Background()); !errors.Is(err, archon.ErrFailedPrecondition) {
		t.Fatalf("the start ended with %v", err)
	}
}

func TestHealthIsServed(t *testing.T) {
	server := archontest.Start(t, "cook", echo)
	conn, err := grpc.NewClient("passthrough:///"+server.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := healthv1.NewHealthClient(conn)
	for _, service := range []string{"", "archon.api.agent.v1.AgentService"} {
		response, err := client.Check(context.Background(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || response.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Fatalf("%q is %v, %v", service, response, err)
		}
	}
}

func TestRunTaskStreamsProgressAndTheResult(t *testing.T) {
	server := archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		task.Write("piece")
		if _, err := task.Delegate(ctx, agent.Delegation{Role: "baker"}); !errors.Is(err, archon.ErrUnimplemented) {
			return agent.Text("it delegated"), nil
		}
		return agent.Text("whole"), nil
	})
	conn, err := grpc.NewClient("passthrough:///"+server.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := agentv1.NewAgentServiceClient(conn)
	stream, err := client.RunTask(context.Background(), &agentv1.RunTaskRequest{Task: &agentv1.AssignTask{Input: textPart("x")}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetProgress().GetText() != "piece" {
		t.Fatalf("the first message is %v, %v", first, err)
	}
	last, err := stream.Recv()
	if err != nil || archon.TextOf(last.GetResult().GetOutput()) != "whole" {
		t.Fatalf("the last message is %v, %v", last, err)
	}
	empty, err := client.RunTask(context.Background(), &agentv1.RunTaskRequest{Task: &agentv1.AssignTask{}})
	if err == nil {
		_, err = empty.Recv()
	}
	if !errors.Is(archon.ToError(err, ""), archon.ErrInvalidArgument) {
		t.Fatalf("a task without input ended with %v", err)
	}
}
