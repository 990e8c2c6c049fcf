package toolowner

import (
	"math"
	"sort"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

const (
	recentCalls      = 100
	rateStep         = 0.05
	latencyStep      = 0.25
	leastLatencyStep = 10 * time.Millisecond
)

// figures counts the calls of one tool that other agents have made.
type figures struct {
	calls, succeeded int64
	took             []time.Duration
}

func (f *figures) count(took time.Duration, ok bool) {
	f.calls++
	if ok {
		f.succeeded++
	}
	f.took = append(f.took, took)
	if len(f.took) > recentCalls {
		f.took = f.took[1:]
	}
}

func (f *figures) share(rate int) *commonv1.ToolShare {
	share := &commonv1.ToolShare{MaxCallsPerMinute: int32(rate), Calls: f.calls, MeanLatency: durationpb.New(0)}
	if f.calls > 0 {
		share.SuccessRate = math.Round(float64(f.succeeded)/float64(f.calls)*1e4) / 1e4
	}
	if len(f.took) > 0 {
		var sum time.Duration
		for _, each := range f.took {
			sum += each
		}
		share.MeanLatency = durationpb.New((sum / time.Duration(len(f.took))).Truncate(time.Microsecond))
	}
	return share
}

// WithShared returns the tools of a registration: each tool once, those that are shared with their terms.
func WithShared(own, shared []*commonv1.Tool) []*commonv1.Tool {
	byName := map[string]*commonv1.Tool{}
	for _, tool := range own {
		if tool.GetShare() == nil {
			byName[tool.GetName()] = tool
		}
	}
	for _, tool := range shared {
		byName[tool.GetName()] = tool
	}
	all := make([]*commonv1.Tool, 0, len(byName))
	for _, tool := range byName {
		all = append(all, tool)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].GetName() < all[j].GetName() })
	return all
}

// DiffersNotably reports whether the shared tools are others, or their figures have changed so much that callers would choose
// differently.
func DiffersNotably(advertised, current []*commonv1.Tool) bool {
	before, count := map[string]*commonv1.ToolShare{}, 0
	for _, tool := range advertised {
		if tool.GetShare() != nil {
			before[tool.GetName()] = tool.GetShare()
		}
	}
	for _, tool := range current {
		if tool.GetShare() == nil {
			continue
		}
		count++
		old, ok := before[tool.GetName()]
		if !ok || differs(old, tool.GetShare()) {
			return true
		}
	}
	return count != len(before)
}

func differs(advertised, current *commonv1.ToolShare) bool {
	if advertised.GetMaxCallsPerMinute() != current.GetMaxCallsPerMinute() {
		return true
	}
	if current.GetCalls() < 1 || advertised.GetCalls() == current.GetCalls() {
		return false
	}
	if advertised.GetCalls() == 0 || current.GetCalls() >= 4*max(1, advertised.GetCalls()) {
		return true
	}
	if math.Abs(advertised.GetSuccessRate()-current.GetSuccessRate()) >= rateStep {
		return true
	}
	old := advertised.GetMeanLatency().AsDuration()
	step := (old - current.GetMeanLatency().AsDuration()).Abs()
	return step >= leastLatencyStep && float64(step) >= latencyStep*float64(old)
}
