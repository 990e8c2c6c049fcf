package agent

import (
	"context"

	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
)

// bidOfProfile returns the handler of tasks that ask for a bid, of an agent without one of its own: the bid has the estimates
// of the profile; without those it does not bid, and the task is refused.
func bidOfProfile(registration *registryv1.Registration) Handler {
	return func(_ context.Context, task *Task) (Answer, error) {
		profile := registration.GetProfile()
		seconds := float64(profile.GetExpectedLatencyMs()) / 1000
		if profile.GetExpectedCostMicroUsd() == 0 && seconds == 0 && profile.GetExpectedQuality() == 0 {
			return Answer{}, Rejected(task.Role() + " does not bid for this step")
		}
		answer, err := JSON(map[string]any{
			"cost_micro_usd": profile.GetExpectedCostMicroUsd(), "seconds": seconds, "quality": profile.GetExpectedQuality(),
		})
		answer.NoPublish = true
		return answer, err
	}
}
