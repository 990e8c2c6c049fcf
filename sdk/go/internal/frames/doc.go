// Package frames has what both ends of a session share: reliable delivery per (task, attempt, direction), batches, and raw
// decoding.
//
// A frame is serialised once, when it is stamped or queued; a message is the joined bytes of its frames. A sequenced frame
// is kept by its sender until the peer acknowledges it.
package frames

import "time"

// Features are the features of a session that this package and its users support.
var Features = []string{
	"cancel", "park", "adopt", "credit", "progress", "record", "drain", "delegate", "budget", "checkpoint", "publish",
	"update_memory", "input", "messages",
}

const (
	// Superseded is the reason of a cancel_task for an attempt that no longer counts, while its task goes on without it.
	Superseded = "superseded"
	// MaxFrames is the most frames of a message: more would hold up the other streams of the process.
	MaxFrames = 10_000
	// SoftBatchBytes is the size that a message aims at.
	SoftBatchBytes = 256 << 10
	// MaxCheckedBytes is the largest frame that senders send.
	MaxCheckedBytes = 4 << 20

	maxFrameOverhead = 64
	hold             = 5 * time.Millisecond  // between two messages of a stream that is busy with fullLoad tasks or more
	fullLoad         = 4                     // below, the wait falls with the square of the number of tasks
	ackWait          = 20 * time.Millisecond // that acks wait for another frame
)
