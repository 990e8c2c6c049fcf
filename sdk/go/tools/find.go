package tools

import (
	"context"
	"math"
	"sort"
	"strings"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
)

// A success rate of few calls says little: it is taken together with priorCalls of priorRate.
const (
	priorCalls = 10
	priorRate  = 0.9
)

// Found is a tool that an instance shares, with its terms.
type Found struct {
	Tool       Tool
	Role       string
	InstanceID string
	Address    string
	Share      *commonv1.ToolShare
}

// ExpectedSuccess returns the success rate, 0 to 1; with few calls it is nearer to 0.9.
func (f Found) ExpectedSuccess() float64 {
	calls := float64(max(0, f.Share.GetCalls()))
	rate := f.Share.GetSuccessRate()
	if math.IsNaN(rate) {
		rate = 0
	}
	rate = min(1, max(0, rate))
	return (calls*rate + priorCalls*priorRate) / (calls + priorCalls)
}

// Query says which shared tools are wanted: of a Name; of an owner with a Role or a Capability; whose name, title or
// description, or whose owner's role, has all Words. Empty fields match every tool. Fresh: no list that was made before.
type Query struct {
	Name       string
	Role       string
	Capability string
	Words      string
	Fresh      bool
}

// Lister lists the live instances of a role, or of all roles; registry.Client is one.
type Lister interface {
	List(ctx context.Context, role string) ([]*registryv1.Registration, error)
}

// sharedBy returns the shared tools of instances, best first: by success rate, then by latency.
func sharedBy(instances []*registryv1.Registration, query Query) []Found {
	words := strings.Fields(strings.ToLower(query.Words))
	var found []Found
	for _, instance := range instances {
		if query.Role != "" && instance.GetRole() != query.Role || !offers(instance, query.Capability) {
			continue
		}
		for _, tool := range instance.GetTools() {
			if tool.GetShare() == nil || (query.Name != "" && tool.GetName() != query.Name) {
				continue
			}
			text := strings.ToLower(tool.GetName() + " " + tool.GetTitle() + " " + tool.GetDescription() + " " + instance.GetRole())
			if hasAll(text, words) {
				found = append(found, Found{
					ToolOf(tool), instance.GetRole(), instance.GetInstanceId(), instance.GetAddress(), tool.GetShare(),
				})
			}
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return better(found[i], found[j]) })
	return found
}

func offers(instance *registryv1.Registration, capability string) bool {
	if capability == "" {
		return true
	}
	for _, offered := range instance.GetCapabilities() {
		if offered.GetId() == capability {
			return true
		}
	}
	return false
}

func hasAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func better(a, b Found) bool {
	// Latencies tell tools of about the same success rate apart.
	if x, y := math.Round(a.ExpectedSuccess()*10), math.Round(b.ExpectedSuccess()*10); x != y {
		return x > y
	}
	if x, y := a.Share.GetMeanLatency().AsDuration(), b.Share.GetMeanLatency().AsDuration(); x != y {
		return x < y
	}
	if a.Role != b.Role {
		return a.Role < b.Role
	}
	return a.InstanceID < b.InstanceID
}

// taskRef returns the reference of an attempt for a lease.
func taskRef(taskID, runID string, attempt int) *commonv1.TaskRef {
	if taskID == "" {
		return nil
	}
	return &commonv1.TaskRef{TaskId: taskID, RunId: runID, Attempt: int32(attempt)}
}

func networkError(message string) *archon.Error {
	return archon.NewError(archon.ReasonUnavailable, message, archon.WithKind(archon.KindToolNetwork))
}
