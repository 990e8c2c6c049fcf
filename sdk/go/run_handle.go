package archon

import (
	"context"
	"iter"
)

// RunHandle is a run that was submitted.
type RunHandle struct {
	client *Client
	run    *Run
}

// ID returns the id that the orchestrator gave the run.
func (h *RunHandle) ID() string { return h.run.ID }

// Submitted returns the run as it was when the submit returned: with Submission.Wait it may have ended.
func (h *RunHandle) Submitted() *Run { return h.run }

// Events yields the run's events, as Client.Watch does.
func (h *RunHandle) Events(ctx context.Context, options ...WatchOption) iter.Seq2[*Event, error] {
	return h.client.Watch(ctx, h.run.ID, options...)
}

// Wait waits until the run has ended, in whatever state.
func (h *RunHandle) Wait(ctx context.Context) (*Run, error) { return h.client.Wait(ctx, h.run.ID) }

// Cancel requests that the run be cancelled.
func (h *RunHandle) Cancel(ctx context.Context, reason string) (*Run, error) {
	return h.client.Cancel(ctx, h.run.ID, reason)
}
