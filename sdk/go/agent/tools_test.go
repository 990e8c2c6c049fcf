package agent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	archontest "github.com/archon-mesh/archon/sdk/go/testing"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

// listed is a registry of agents that share tools.
type listed []*agent.Server

// List returns the registrations that Describe of each agent would.
func (l listed) List(context.Context, string) ([]*registryv1.Registration, error) {
	var instances []*registryv1.Registration
	for _, server := range l {
		instances = append(instances, &registryv1.Registration{
			InstanceId: server.InstanceID(), Role: server.Role(), Address: server.Address(),
			Tools: []*commonv1.Tool{{Name: "add", Share: &commonv1.ToolShare{}}, {Name: "slow", Share: &commonv1.ToolShare{}}},
		})
	}
	return instances, nil
}

type numbers struct{ A, B int }

const schema = `{"type": "object", "required": ["A", "B"], "properties": {"A": {"type": "integer"}, "B": {"type": "integer"}},
	"additionalProperties": false}`

func adder(calls *int) tools.SharedTool {
	return tools.SharedTool{
		Tool: tools.Tool{Name: "add", InputSchemaJSON: schema},
		Execute: func(_ context.Context, call *tools.Call) (any, error) {
			*calls++
			var given numbers
			if err := call.Decode(&given); err != nil {
				return nil, err
			}
			call.Report("adding")
			if given.A < 0 {
				panic("negative")
			}
			return given.A + given.B, nil
		},
	}
}

func slow() tools.SharedTool {
	return tools.SharedTool{
		Tool: tools.Tool{Name: "slow"}, MaxCallsPerMinute: -1,
		Execute: func(ctx context.Context, _ *tools.Call) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
}

// C14: a tool of another agent is leased and executed where it lives; a failure of the tool itself is a result.
func TestC14ASharedToolIsExecuted(t *testing.T) {
	calls := 0
	owner := archontest.Start(t, "calculator", echo, agent.WithSharedTools(adder(&calls)))
	client := tools.NewClient(listed{owner}, "test")
	defer client.Close()
	ctx := archon.WithCall(context.Background(), archon.Call{RunID: "run-1", TaskID: "task-1", Attempt: 1})
	leased := client.Lease(ctx, "add", "")
	defer leased.Release()
	var told string
	result, err := leased.Execute(ctx, numbers{2, 3}, tools.CallOptions{Progress: func(text string) { told = text }})
	if err != nil || result.ContentJSON != "5" || told != "adding" {
		t.Fatalf("the result is %+v, %v, told %q", result, err, told)
	}
	failed, err := leased.Execute(ctx, numbers{-1, 0}, tools.CallOptions{})
	if err != nil || failed.OK() || failed.Metadata["reason"] != "INTERNAL" || failed.Metadata["kind"] != archon.KindToolCrash {
		t.Fatalf("the failed result is %+v, %v", failed, err)
	}
	_, err = leased.Execute(ctx, map[string]any{"A": "two"}, tools.CallOptions{})
	if !errors.Is(err, archon.ErrInvalidArgument) || len(archon.AsError(err).Violations) != 2 {
		t.Fatalf("invalid arguments ended with %v", err)
	}
}

// C14: a repeated call with the same key has the same result, and acts once.
func TestC14ARepeatedCallActsOnce(t *testing.T) {
	calls := 0
	owner := archontest.Start(t, "calculator", echo, agent.WithSharedTools(adder(&calls)))
	client := tools.NewClient(listed{owner}, "test")
	defer client.Close()
	ctx := archon.WithCall(context.Background(), archon.Call{RunID: "run-1", TaskID: "task-1", Attempt: 1})
	for range 2 {
		leased := client.Lease(ctx, "add", "") // another lease of the same task
		result, err := leased.Execute(ctx, numbers{1, 1}, tools.CallOptions{IdempotencyKey: "key"})
		if err != nil || result.ContentJSON != "2" {
			t.Fatalf("the result is %+v, %v", result, err)
		}
		leased.Release()
	}
	if calls != 1 {
		t.Fatalf("the tool acted %d times", calls)
	}
	_, err := client.Lease(ctx, "add", "").Execute(ctx, numbers{1, 2}, tools.CallOptions{IdempotencyKey: "key"})
	if !errors.Is(err, archon.ReasonRequestIDReused) {
		t.Fatalf("other arguments under the key ended with %v", err)
	}
}

// C14: a revoked lease ends the call that had begun, and the error says so.
func TestC14ARevokedToolEndsItsCalls(t *testing.T) {
	owner := archontest.Start(t, "calculator", echo, agent.WithSharedTools(slow()))
	client := tools.NewClient(listed{owner}, "test")
	defer client.Close()
	go func() {
		time.Sleep(100 * time.Millisecond)
		owner.SharedTools().Revoke("slow")
	}()
	ctx := context.Background()
	_, err := client.Lease(ctx, "slow", "").Execute(ctx, nil, tools.CallOptions{})
	if !errors.Is(err, archon.ReasonLeaseExpired) || archon.AsError(err).Metadata["begun"] != "true" {
		t.Fatalf("the call ended with %v", err)
	}
}

// C14: a call that is not answered in time has the status timeout.
func TestC14ACallThatTakesTooLongTimesOut(t *testing.T) {
	owner := archontest.Start(t, "calculator", echo, agent.WithSharedTools(slow()))
	client := tools.NewClient(listed{owner}, "test")
	defer client.Close()
	ctx := context.Background()
	result, err := client.Lease(ctx, "slow", "").Execute(ctx, nil, tools.CallOptions{Timeout: 100 * time.Millisecond})
	if err != nil || result.Status != tools.TimedOut {
		t.Fatalf("the result is %+v, %v", result, err)
	}
}

// C14: another instance gets a call only if the one before has certainly not begun it.
func TestC14ACallMovesToAnotherInstance(t *testing.T) {
	calls := 0
	gone := archontest.Start(t, "calculator", echo, agent.WithSharedTools(adder(&calls)))
	there := archontest.Start(t, "calculator", echo, agent.WithSharedTools(adder(&calls)))
	address := gone.Address()
	gone.Stop(0)
	client := tools.NewClient(moved{listed{gone, there}, address}, "test")
	defer client.Close()
	ctx := context.Background()
	result, err := client.Lease(ctx, "add", "").Execute(ctx, numbers{1, 1}, tools.CallOptions{})
	if err != nil || result.ContentJSON != "2" || calls != 1 {
		t.Fatalf("the result is %+v, %v after %d calls", result, err, calls)
	}
}

// moved lists an instance that is gone with the address that it had.
type moved struct {
	listed
	address string
}

// List returns the registrations.
func (m moved) List(ctx context.Context, role string) ([]*registryv1.Registration, error) {
	instances, err := m.listed.List(ctx, role)
	instances[0].Address = m.address
	return instances, err
}
