package agent

import (
	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

// amounts are tokens, cost in millionths of a US dollar, and calls of models.
type amounts [3]int64

func amountsOf(budget *commonv1.Budget) amounts {
	return amounts{budget.GetMaxTokens(), budget.GetMaxCostMicroUsd(), budget.GetMaxModelCalls()}
}

// attemptBudget is the slice of its run's budget that an attempt may spend. The server's lock guards it.
type attemptBudget struct {
	limited  bool
	limits   [3]bool
	granted  amounts
	reserved []amounts
}

func newAttemptBudget(assigned *agentv1.AssignTask) attemptBudget {
	b := attemptBudget{limited: assigned.Budget != nil, granted: amountsOf(assigned.GetBudget())}
	for i, amount := range b.granted {
		b.limits[i] = amount > 0
	}
	return b
}

func (b *attemptBudget) add(slice *commonv1.Budget) {
	for i, amount := range amountsOf(slice) {
		b.granted[i] += amount
	}
}

// missing returns the grant needed before a call of this size; nil if the slice covers it.
func (b *attemptBudget) missing(spent archon.Usage, wanted amounts) *commonv1.Budget {
	used := amounts{spent.InputTokens + spent.OutputTokens, spent.CostMicroUSD, spent.ModelCalls}
	var more amounts
	any := false
	for i := range more {
		if !b.limits[i] {
			continue
		}
		need := used[i] + wanted[i] - b.granted[i]
		for _, each := range b.reserved {
			need += each[i]
		}
		more[i] = max(0, need)
		any = any || more[i] > 0
	}
	if !any {
		return nil
	}
	return &commonv1.Budget{MaxTokens: more[0], MaxCostMicroUsd: more[1], MaxModelCalls: more[2]}
}

func (b *attemptBudget) reserve(wanted amounts) {
	if b.limited {
		b.reserved = append(b.reserved, wanted)
	}
}

// settle releases the oldest reservation: its call was made, and the usage counts instead.
func (b *attemptBudget) settle() {
	if len(b.reserved) > 0 {
		b.reserved = b.reserved[1:]
	}
}
