// A designer: one component for each numbered requirement in its shared context. It registers, serves, and drains. With
// INTEROP_ANSWER it gives an answer of so many bytes at once, as the role ARCHON_ROLE, for measurements.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	leaseTime  = 2 * time.Second
	drainGrace = 30 * time.Second
	ackGrace   = 5 * time.Second
	// Metadata keys by which a caller sets how long a task waits before its first delta, and after its last.
	firstDelayKey = "dev.archon.interop/first-delay"
	delayKey      = "dev.archon.interop/delay"
)

var requirement = regexp.MustCompile(`(?m)^(R\d+)\. (.+)$`)

func text(parts []*commonv1.Part) string {
	var texts []string
	for _, part := range parts {
		if part.GetText() != "" {
			texts = append(texts, part.GetText())
		}
	}
	return strings.Join(texts, "\n\n")
}

// waited waits for a duration such as "0.5s", if it is one; false if ctx is done first.
func waited(ctx context.Context, duration string) bool {
	delay, err := time.ParseDuration(duration)
	if err != nil {
		return true
	}
	select {
	case <-time.After(delay):
		return true
	case <-ctx.Done():
		return false
	}
}

// number returns the whole number in a variable, or another one if there is none.
func number(variable string, otherwise int) int {
	if value, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return value
	}
	return otherwise
}

// role returns the role of this process and the roles that it depends on.
func role() (string, []*registryv1.DependsOn) {
	name := os.Getenv("ARCHON_ROLE")
	if name == "" {
		return "designer", []*registryv1.DependsOn{{Role: "requirements"}}
	}
	var upstream []*registryv1.DependsOn
	for _, each := range strings.Fields(os.Getenv("INTEROP_DEPENDS_ON")) {
		upstream = append(upstream, &registryv1.DependsOn{Role: each})
	}
	return name, upstream
}

// design names a component per requirement in place of a model call; the record has its input.
func design(ctx context.Context, assigned *agentv1.AssignTask, say func(string)) (*agentv1.TaskResult, *agentv1.CallRecord) {
	began := time.Now()
	if size := number("INTEROP_ANSWER", 0); size > 0 {
		output := []*commonv1.Part{{Content: &commonv1.Part_Text{Text: strings.Repeat("x", size)}}}
		return &agentv1.TaskResult{State: commonv1.TaskState_TASK_STATE_COMPLETED, Output: output}, nil
	}
	if !waited(ctx, assigned.GetMetadata()[firstDelayKey]) {
		return nil, nil
	}
	given := map[string]string{"goal": text(assigned.GetInput())}
	var used []*commonv1.MemoryRef
	var lines []string
	for _, item := range assigned.GetContext() {
		given[item.GetRef().GetRole()] = text(item.GetParts())
		used = append(used, item.GetRef())
		for _, found := range requirement.FindAllStringSubmatch(text(item.GetParts()), -1) {
			line := fmt.Sprintf("C%d. GoComponent%s — covers %s: %s", len(lines)+1, found[1], found[1], found[2])
			lines = append(lines, line)
			say(line + "\n")
		}
	}
	if !waited(ctx, assigned.GetMetadata()[delayKey]) {
		return nil, nil
	}
	answer := strings.Join(lines, "\n")
	request, _ := json.Marshal(given)
	response, _ := json.Marshal(answer)
	usage := &commonv1.Usage{ModelCalls: 1, OutputTokens: int64(len(answer) / 4), Estimated: true}
	record := &agentv1.CallRecord{
		Kind: agentv1.RecordKind_RECORD_KIND_MODEL, Target: "go-rules", Usage: usage,
		StartTime: timestamppb.New(began), Duration: durationpb.New(time.Since(began)),
		RequestJson: string(request), ResponseJson: string(response),
	}
	output := []*commonv1.Part{{Content: &commonv1.Part_Text{Text: answer}}}
	state := commonv1.TaskState_TASK_STATE_COMPLETED
	return &agentv1.TaskResult{State: state, Output: output, Usage: usage, Used: used}, record
}

// handle executes a task.
func (a *agent) handle(ctx context.Context, task *agentv1.AssignTask, say func(string)) (*agentv1.TaskResult, *agentv1.CallRecord) {
	ctx, end := startSpan(ctx, task)
	result, record := design(ctx, task, say)
	end(result != nil)
	return result, record
}

// register calls RegisterInstance every third of the lease until ctx is done, and then deregisters.
func register(ctx context.Context, registry registryv1.RegistryServiceClient, registration *registryv1.Registration) {
	token := ""
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, leaseTime)
		response, err := registry.RegisterInstance(call, &registryv1.RegisterInstanceRequest{Registration: registration, Token: token})
		cancel()
		if err != nil {
			log.Printf("not registered: %v", err)
		} else if response.GetToken() != "" {
			token = response.GetToken()
		}
		select {
		case <-time.After(leaseTime / 3):
		case <-ctx.Done():
		}
	}
	call, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	request := &registryv1.DeregisterInstanceRequest{InstanceId: registration.GetInstanceId(), Token: token}
	if _, err := registry.DeregisterInstance(call, request); err != nil {
		log.Printf("not deregistered: %v", err)
	}
}

// waitUntil returns when the condition holds, or after `most`.
func (a *agent) waitUntil(most time.Duration, holds func() bool) {
	over := false
	timer := time.AfterFunc(most, func() { a.locked(func() { over = true; a.news.Broadcast() }) })
	defer timer.Stop()
	a.locked(func() {
		for !over && !holds() {
			a.news.Wait()
		}
	})
}

// drain accepts nothing new, finishes tasks in progress, waits briefly for acks, and ends the streams with OK.
func (a *agent) drain() {
	a.locked(func() {
		a.draining = true
		for _, s := range a.sessions {
			drain := &agentv1.Drain{Grace: durationpb.New(drainGrace), Reason: "SIGTERM"}
			a.put(s, &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Drain{Drain: drain}})
		}
		a.credit()
	})
	a.waitUntil(drainGrace, func() bool {
		for _, t := range a.tasks {
			if t.working {
				return false
			}
		}
		return true
	})
	a.waitUntil(ackGrace, func() bool { return len(a.tasks) == 0 || len(a.sessions) == 0 })
	a.locked(func() {
		for _, s := range a.sessions {
			a.end(s, nil)
		}
	})
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("ARCHON_PORT"))
	if err != nil {
		log.Fatal(err)
	}
	name, upstream := role()
	a := &agent{tasks: map[key]*task{}, epochs: map[string]int64{}, registration: &registryv1.Registration{
		InstanceId:  name + "-go-" + strings.ToLower(rand.Text()[:12]),
		Role:        name,
		Version:     "1.0.0",
		Address:     listener.Addr().String(),
		Description: "Designs the components that meet the requirements, in Go.",
		Capabilities: []*commonv1.Capability{{Id: "design.components", Name: "Design components",
			Description: "Names a component for each requirement."}},
		DependsOn: upstream,
		MaxTasks:  int32(number("INTEROP_MAX_TASKS", 4)),
		Ttl:       durationpb.New(leaseTime),
	}}
	a.news = sync.NewCond(&a.mu)
	lender := newOwner()
	a.registration.Tools = []*commonv1.Tool{lender.tool()}
	server, healthy := grpc.NewServer(), health.NewServer()
	agentv1.RegisterAgentServiceServer(server, a)
	toolv1.RegisterToolServiceServer(server, lender)
	healthv1.RegisterHealthServer(server, healthy)
	reflection.Register(server)
	go func() {
		if err := server.Serve(listener); err != nil {
			log.Fatal(err)
		}
	}()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	defer export(ctx)()
	left := make(chan struct{})
	close(left)
	if target := os.Getenv("ARCHON_REGISTRY"); target != "" {
		// without a limit gRPC would wait up to two minutes before it reconnects
		again := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second}}
		channel, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(again), grpc.WithPerRPCCredentials(token{}))
		if err != nil {
			log.Fatal(err)
		}
		left = make(chan struct{})
		go func() {
			defer close(left)
			register(ctx, registryv1.NewRegistryServiceClient(channel), a.registration)
		}()
	}
	if ready := os.Getenv("ARCHON_READY_FILE"); ready != "" {
		if err := os.WriteFile(ready, []byte(a.registration.GetAddress()), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	log.Printf("%s serves on %s", a.registration.GetInstanceId(), a.registration.GetAddress())

	<-ctx.Done()
	healthy.Shutdown()
	<-left
	a.drain()
	time.AfterFunc(time.Second, server.Stop)
	server.GracefulStop()
	log.Print("drained")
}
