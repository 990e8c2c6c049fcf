package agent_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	archontest "github.com/archon-mesh/archon/sdk/go/testing"
)

// fakeRegistry notes its calls.
type fakeRegistry struct {
	registryv1.UnimplementedRegistryServiceServer
	mu      sync.Mutex
	calls   chan string
	refusal error
	expired bool
	last    *registryv1.RegisterInstanceRequest
	server  *grpc.Server
}

func startRegistry(t *testing.T) (*fakeRegistry, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &fakeRegistry{calls: make(chan string, 1000), server: grpc.NewServer()}
	registryv1.RegisterRegistryServiceServer(r.server, r)
	go func() { _ = r.server.Serve(listener) }()
	t.Cleanup(r.server.Stop)
	return r, listener.Addr().String()
}

func (r *fakeRegistry) RegisterInstance(
	_ context.Context, request *registryv1.RegisterInstanceRequest,
) (*registryv1.RegisterInstanceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls <- "register"
	r.last = request
	if r.refusal != nil {
		return nil, r.refusal
	}
	return &registryv1.RegisterInstanceResponse{Registration: request.GetRegistration(), Ttl: durationpb.New(time.Second)}, nil
}

func (r *fakeRegistry) KeepAlive(stream grpc.BidiStreamingServer[registryv1.KeepAliveRequest, registryv1.KeepAliveResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		r.mu.Lock()
		status := &registryv1.LeaseStatus{InstanceId: request.GetInstanceIds()[0], Expired: r.expired, Ttl: durationpb.New(time.Second)}
		r.expired = false
		r.mu.Unlock()
		r.calls <- "renew"
		if err := stream.Send(&registryv1.KeepAliveResponse{Leases: []*registryv1.LeaseStatus{status}}); err != nil {
			return err
		}
	}
}

func (r *fakeRegistry) DeregisterInstance(
	_ context.Context, request *registryv1.DeregisterInstanceRequest,
) (*registryv1.DeregisterInstanceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.GetToken() != r.last.GetToken() || len(request.GetToken()) < 16 {
		return nil, archon.NewError(archon.ReasonPermissionDenied, "the token is another one")
	}
	r.calls <- "deregister"
	return &registryv1.DeregisterInstanceResponse{}, nil
}

func (r *fakeRegistry) wait(t *testing.T, call string) {
	t.Helper()
	timer := time.NewTimer(archontest.Patience)
	defer timer.Stop()
	for {
		select {
		case came := <-r.calls:
			if came == call {
				return
			}
		case <-timer.C:
			t.Fatalf("no call %s came", call)
		}
	}
}

func TestARegistrationIsKeptAlive(t *testing.T) {
	registry, address := startRegistry(t)
	server := archontest.Start(t, "cook", echo, agent.WithRegistry(address), agent.WithDependsOn("baker"),
		agent.WithCapabilities("food.cook"), agent.WithMaxTasks(3))
	registry.wait(t, "register")
	registry.mu.Lock()
	registration := registry.last.GetRegistration()
	registry.mu.Unlock()
	if registration.GetAddress() != server.Address() || registration.GetMaxTasks() != 3 ||
		registration.GetDependsOn()[0].GetRole() != "baker" || registration.GetCapabilities()[0].GetId() != "food.cook" {
		t.Fatalf("the registration is %v", registration)
	}
	registry.wait(t, "renew")
	registry.wait(t, "renew")
	registry.mu.Lock()
	registry.expired = true
	registry.mu.Unlock()
	registry.wait(t, "register")
	server.Stop(0)
	registry.wait(t, "deregister")
}

func TestARefusedRegistrationFailsTheStart(t *testing.T) {
	registry, address := startRegistry(t)
	registry.refusal = archon.NewError(archon.ReasonConflict, "the instance belongs to another", archon.WithCode(codes.AlreadyExists))
	server, err := agent.New("cook", echo, agent.WithSettings(agent.Settings{Registry: address}))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(context.Background()); !errors.Is(err, archon.ErrAlreadyExists) {
		t.Fatalf("the start failed with %v", err)
	}
}

func TestAnOutageOfTheRegistryIsSurvived(t *testing.T) {
	registry, address := startRegistry(t)
	archontest.Start(t, "cook", echo, agent.WithRegistry(address))
	registry.wait(t, "renew")
	registry.server.Stop()
	time.Sleep(300 * time.Millisecond)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	again := grpc.NewServer()
	registryv1.RegisterRegistryServiceServer(again, registry)
	go func() { _ = again.Serve(listener) }()
	t.Cleanup(again.Stop)
	for len(registry.calls) > 0 {
		<-registry.calls
	}
	registry.wait(t, "renew")
}

func TestNamesThatRegistriesRefuseAreRefused(t *testing.T) {
	settings := agent.WithSettings(agent.Settings{})
	for _, options := range [][]agent.Option{
		{agent.WithVersion("one")}, {agent.WithCapabilities("No Spaces")}, {agent.WithDependsOn("Upper")}, {agent.WithMaxTasks(-1)},
	} {
		if _, err := agent.New("cook", echo, append(options, settings)...); !errors.Is(err, archon.ErrInvalidArgument) {
			t.Errorf("it was taken: %v", err)
		}
	}
	if _, err := agent.New("Chef de cuisine", echo, settings); !errors.Is(err, archon.ErrInvalidArgument) {
		t.Errorf("the role was taken: %v", err)
	}
}

func TestSettingsComeFromTheEnvironment(t *testing.T) {
	t.Setenv("ARCHON_PORT", "tcp://10.0.0.1:7100") // set by Kubernetes for a Service named archon
	t.Setenv("ARCHON_MAX_TASKS", "12 ")
	t.Setenv("ARCHON_DEPENDS_ON", "a, b,")
	t.Setenv("ARCHON_TTL", "2.5")
	t.Setenv("ARCHON_DRAIN", "0")
	settings, err := agent.SettingsFromEnvironment()
	if err != nil || settings.Port != 0 || settings.MaxTasks != 12 || len(settings.DependsOn) != 2 ||
		settings.TTL != 2500*time.Millisecond || settings.Drain > 0 {
		t.Fatalf("the settings are %+v, %v", settings, err)
	}
	t.Setenv("ARCHON_MAX_TASKS", "many")
	if _, err := agent.SettingsFromEnvironment(); !errors.Is(err, archon.ErrInvalidArgument) {
		t.Fatalf("the number was taken: %v", err)
	}
}
