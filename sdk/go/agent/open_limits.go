package agent

import (
	"math"
	"time"

	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
)

const (
	defaultParkTTL      = 25 * time.Hour // longer than any run
	maxParkTTL          = 7 * 24 * time.Hour
	defaultSilenceLimit = 2 * time.Second
	maxSilenceLimit     = time.Minute
	loweredGrace        = 2 * time.Second // in which tasks still count against the earlier credit: they may be on their way
)

// parkTTL returns how long results are parked, as Open says, within the bounds of the agent.
func parkTTL(open *agentv1.Open) time.Duration {
	if open.ParkTtl == nil {
		return defaultParkTTL
	}
	return min(maxParkTTL, max(0, open.GetParkTtl().AsDuration()))
}

func silenceLimit(open *agentv1.Open) time.Duration {
	if open.SilenceLimit == nil {
		return defaultSilenceLimit
	}
	return min(maxSilenceLimit, max(0, open.GetSilenceLimit().AsDuration()))
}

// shareWindow is the number of tasks that a session may have in flight besides other sessions.
type shareWindow struct {
	share, earlier int
	loweredAt      time.Time
}

func (w *shareWindow) set(share int, now time.Time) {
	if share < w.share {
		w.earlier, w.loweredAt = w.allowed(now), now
	}
	w.share = share
}

// allowed returns the share, or the earlier one if it was lowered a moment ago.
func (w *shareWindow) allowed(now time.Time) int {
	if now.Sub(w.loweredAt) < loweredGrace {
		return max(w.share, w.earlier)
	}
	return w.share
}

// checkedLimit returns a number of bytes as an int, at most the largest one.
func checkedLimit(bytes int64) int { return int(min(bytes, math.MaxInt32)) }
