package agent

import (
	"context"
	"errors"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
)

// taskContext is the context of a handler: cancelled with its task, with the deadline of the task as it is now. While the
// task waits for a person its time stands still, and it has none.
type taskContext struct {
	context.Context
	task *Task
}

// Deadline returns the end of the task's time.
func (c *taskContext) Deadline() (time.Time, bool) {
	c.task.attempt.server.mu.Lock()
	defer c.task.attempt.server.mu.Unlock()
	if c.task.deadline.IsZero() || c.task.stopped {
		return time.Time{}, false
	}
	return c.task.deadline, true
}

// Err returns context.DeadlineExceeded if the time of the task is over, context.Canceled if it was cancelled.
func (c *taskContext) Err() error {
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), archon.ErrDeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
