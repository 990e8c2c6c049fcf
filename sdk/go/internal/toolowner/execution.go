package toolowner

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

const (
	maxProgress        = 1_000 // characters of one text of progress
	maxWaitingProgress = 50    // texts that wait for one caller to read them; older ones are dropped
)

// listener is a caller that waits for an execution.
type listener struct {
	progress []string
	news     chan struct{} // one token
}

func (l *listener) wake() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// execution is one execution of a shared tool, which one or several callers with the same idempotency key wait for. It ends
// with a result, or with an error if it was ended from outside. The owner's lock guards it.
type execution struct {
	owner     *Owner
	name      string
	leaseID   string
	began     time.Time
	cancel    context.CancelCauseFunc
	result    *toolv1.ToolResult
	err       *archon.Error
	listeners map[*listener]struct{}
	left      chan struct{} // closed when the tool itself has returned
	onEnd     func(*execution)
	onLeft    func(*execution)
}

func (e *execution) done() bool { return e.result != nil || e.err != nil }

// run executes a call in this goroutine.
func (e *execution) run(ctx context.Context, tool tools.SharedTool, call *tools.Call, limit time.Duration) {
	late := time.AfterFunc(limit, func() {
		e.owner.mu.Lock()
		defer e.owner.mu.Unlock()
		if !e.done() {
			e.finish(timedOut(limit), nil)
		}
		e.cancel(context.DeadlineExceeded)
	})
	result := guarded(ctx, tool, call)
	late.Stop()
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	if !e.done() {
		result.Took = time.Since(e.began)
		e.finish(result.Proto(), nil)
	}
	e.cancel(nil)
	close(e.left)
	e.onLeft(e)
}

// end ends it with an error, unless its outcome is known: callers get the error at once, and the tool is cancelled.
func (e *execution) end(err *archon.Error) {
	if !e.done() {
		e.finish(nil, err)
		e.cancel(err)
	}
}

func (e *execution) finish(result *toolv1.ToolResult, err *archon.Error) {
	e.result, e.err = result, err
	e.onEnd(e)
	for each := range e.listeners {
		each.wake()
	}
}

func (e *execution) report(text string) {
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	if runes := []rune(text); len(runes) > maxProgress {
		text = string(runes[:maxProgress])
	}
	for each := range e.listeners {
		if len(each.progress) >= maxWaitingProgress {
			each.progress = each.progress[1:]
		}
		each.progress = append(each.progress, text)
		each.wake()
	}
}

// follow passes progress to a caller, and returns the result; a result with the status TIMEOUT if there is none within limit.
// If the last caller leaves early, the execution is cancelled.
func (e *execution) follow(ctx context.Context, limit time.Duration, progress func(string) error) (*toolv1.ToolResult, error) {
	own := &listener{news: make(chan struct{}, 1)}
	owner := e.owner
	owner.mu.Lock()
	e.listeners[own] = struct{}{}
	defer func() {
		delete(e.listeners, own)
		if len(e.listeners) == 0 {
			e.end(archon.NewError(archon.ReasonCancelled, "the caller cancelled the call"))
		}
		owner.mu.Unlock()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		texts, done := own.progress, e.done()
		own.progress = nil
		owner.mu.Unlock()
		for _, text := range texts {
			if err := progress(text); err != nil {
				owner.mu.Lock()
				return nil, err
			}
		}
		if done {
			owner.mu.Lock()
			if e.err != nil {
				return nil, e.err
			}
			return e.result, nil
		}
		select {
		case <-own.news:
		case <-timer.C:
			owner.mu.Lock()
			if e.done() {
				continue
			}
			return timedOut(limit), nil
		case <-ctx.Done():
			owner.mu.Lock()
			return nil, ctx.Err()
		}
		owner.mu.Lock()
	}
}

// guarded calls a tool, which may return or panic anything.
func guarded(ctx context.Context, tool tools.SharedTool, call *tools.Call) (result tools.Result) {
	result = failed(archon.NewError(archon.ReasonInternal, "the tool ended its goroutine"))
	defer func() {
		if recovered := recover(); recovered != nil {
			result = failed(archon.FromPanic(recovered, archon.KindToolCrash))
		}
	}()
	value, err := tool.Execute(ctx, call)
	if err != nil {
		return failed(archon.ToError(err, archon.KindToolCrash))
	}
	part, err := archon.JSONPart(value)
	if err != nil {
		return failed(archon.NewError(archon.ReasonInvalidArgument, "the result is not a JSON value",
			archon.WithKind(archon.KindToolCrash)))
	}
	if raw, ok := value.(json.RawMessage); ok {
		part.DataJSON = string(raw)
	}
	if size := len(part.DataJSON); size > tools.MaxResultBytes {
		return failed(archon.NewError(archon.ReasonInvalidArgument, "the result has "+strconv.Itoa(size)+
			" bytes, more than the "+strconv.Itoa(tools.MaxResultBytes)+" of a shared tool", archon.WithKind(archon.KindToolCrash)))
	}
	return tools.Result{Status: tools.Success, ContentJSON: part.DataJSON}
}

func failed(err *archon.Error) tools.Result {
	return tools.Result{Status: tools.Failed, ErrorMessage: err.Error(), Metadata: map[string]string{
		"code": archon.CodeName(err.Code), "reason": string(err.Reason), "kind": err.Kind,
	}}
}

func timedOut(limit time.Duration) *toolv1.ToolResult {
	return tools.Result{
		Status: tools.TimedOut, ErrorMessage: "no answer within " + limit.Round(10*time.Millisecond).String(), Took: limit,
	}.Proto()
}

// log writes one line about an event of a tool, without contents.
func log(event string, l *lease, attributes ...any) {
	id := l.id
	if len(id) > 8 {
		id = id[:8] // who knows the whole id may use the lease
	}
	attributes = append([]any{
		"event", event, "tool", l.toolName, "lease", id, "caller", l.instanceID, "run_id", l.task.GetRunId(),
		"task_id", l.task.GetTaskId(), "attempt", l.task.GetAttempt(),
	}, attributes...)
	slog.Info("shared tool", attributes...)
}
