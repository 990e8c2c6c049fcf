package agent

import (
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

// finish sends the result, and returns it as it was sent. content is its encoding, or nil.
func (a *attempt) finish(state snapshot, result *agentv1.TaskResult, content []byte) *agentv1.TaskResult {
	if !a.working() || a.task == nil {
		return nil
	}
	for _, timer := range []*time.Timer{a.timer, a.grace} {
		if timer != nil {
			timer.Stop()
		}
	}
	a.flush()
	result, content = a.fitting(state, result, content)
	a.task = nil
	a.finishedAt = time.Now()
	if _, running := a.server.table.running[a]; running {
		a.server.table.abandoned[a] = struct{}{}
	}
	a.calls.close()
	a.send(content, true)
	return result
}

// fitting returns a result that fits in a frame. Items that make it too large are left out; without them it fails the task.
func (a *attempt) fitting(state snapshot, result *agentv1.TaskResult, content []byte) (*agentv1.TaskResult, []byte) {
	if content == nil {
		content = mustEncode(result)
	}
	err := a.channel.CheckSize(content, a.limit)
	if err != nil && len(result.GetItems()) > 0 {
		slog.Warn("the items of a task are not published", "task_id", a.channel.Ref.GetTaskId(), "error", err)
		result.Items = nil
		content = mustEncode(result)
		err = a.channel.CheckSize(content, a.limit)
	}
	if err != nil {
		result = a.failed(state, err)
		content = mustEncode(result)
	}
	return result, content
}

func mustEncode(result *agentv1.TaskResult) []byte {
	content, err := frames.Content(armResult, result)
	if err != nil { // a text of the handler that is no UTF-8 has been cleaned; nothing else can fail
		slog.Error("a result cannot be encoded", "error", err)
		failure := archon.ToError(err, archon.KindToolCrash).ToFailure()
		content, _ = frames.Content(armResult,
			&agentv1.TaskResult{State: commonv1.TaskState_TASK_STATE_FAILED, Failure: failure})
	}
	return content
}

// encode returns the result of a handler's return values, with its encoding.
func (a *attempt) encode(state snapshot, answer Answer, err error) (*agentv1.TaskResult, []byte) {
	if err == nil {
		result, failed := state.result(answer)
		if failed == nil {
			content, encodeErr := frames.Content(armResult, result)
			if encodeErr == nil {
				return result, content
			}
			failed = encodeErr
		}
		err = failed
	}
	result := a.failed(state, err)
	return result, mustEncode(result)
}

func (a *attempt) failed(state snapshot, err error) *agentv1.TaskResult {
	result := &agentv1.TaskResult{State: commonv1.TaskState_TASK_STATE_FAILED, Usage: state.usage.Proto()}
	var rejected *rejection
	typed := archon.ToError(err, archon.KindToolCrash, a.names()...)
	switch {
	case errors.As(err, &rejected):
		result.State = commonv1.TaskState_TASK_STATE_REJECTED
	case typed == a.halted && typed.Code == codes.Canceled:
		result.State = commonv1.TaskState_TASK_STATE_CANCELED
	}
	result.Failure = typed.ToFailure()
	return result
}
