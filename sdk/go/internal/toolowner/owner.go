// Package toolowner has the tools that an agent lends to others: leases, executions, and the service.
package toolowner

import (
	"context"
	"encoding/json"
	"sort"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

const (
	maxCalls        = 256 // of all tools in progress at a time
	maxCallsOfLease = 16
	maxKey          = 256 // characters of an idempotency key
	begunKey        = "begun"
	answerMargin    = 100 * time.Millisecond // of the caller's deadline that are kept for the answer to travel
	stopTime        = 2 * time.Second
)

// shared is a shared tool with its calls.
type shared struct {
	tool    tools.SharedTool
	schema  map[string]any
	figures figures
	window  *window
	calls   int // whose tool has not returned
}

// Owner is the tools that an agent shares, with their leases and executions.
type Owner struct {
	mu         sync.Mutex
	tools      map[string]*shared
	leases     leaseTable
	kept       keptResults
	executions map[*execution]struct{} // whose tool has not returned
	draining   bool
	changed    chan struct{}
}

// New returns an owner of tools.
func New(given []tools.SharedTool) (*Owner, error) {
	o := &Owner{
		tools: map[string]*shared{}, leases: newLeaseTable(), kept: newKeptResults(), executions: map[*execution]struct{}{},
		changed: make(chan struct{}, 1),
	}
	for _, tool := range given {
		if err := o.Share(tool); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Share shares a tool from now on.
func (o *Owner) Share(tool tools.SharedTool) error {
	tool, err := tool.Completed()
	if err != nil {
		return err
	}
	own := &shared{tool: tool, window: newWindow(tool.TotalPerMinute)}
	if tool.Tool.InputSchemaJSON != "" {
		if err := json.Unmarshal([]byte(tool.Tool.InputSchemaJSON), &own.schema); err != nil {
			return archon.ToError(err, "")
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.tools[tool.Tool.Name]; known {
		return archon.NewError(archon.ReasonAlreadyExists, "a tool '"+tool.Tool.Name+"' is shared already")
	}
	o.tools[tool.Tool.Name] = own
	o.note()
	return nil
}

func (o *Owner) note() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// Changed returns a channel with a token once a tool was shared or taken back.
func (o *Owner) Changed() <-chan struct{} { return o.changed }

// Revoke takes a tool back at once: its leases end, and so do its calls in progress.
func (o *Owner) Revoke(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.tools, name)
	o.note()
	leases := o.leases.ofTool(name)
	for _, each := range leases {
		o.revoke(each, "owner")
	}
	for each := range o.executions {
		if each.name == name {
			each.end(revoked())
		}
	}
	return len(leases)
}

// RevokeLease ends a lease at once, with its calls in progress.
func (o *Owner) RevokeLease(id string) bool { return o.endLease(id, "owner") }

func (o *Owner) endLease(id, by string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.leases.leases[id]
	if found != nil {
		o.revoke(found, by)
	}
	return found != nil
}

func (o *Owner) revoke(l *lease, by string) {
	o.leases.remove(l.id)
	log("revoke", l, "by", by)
	for each := range o.executions {
		if each.leaseID == l.id {
			each.end(revoked())
		}
	}
}

func revoked() *archon.Error {
	return archon.NewError(archon.ReasonLeaseExpired, "the lease of the tool was revoked", archon.WithMetadata(begunKey, "true"))
}

// Advertised returns the tools with their terms and current figures, sorted by name.
func (o *Owner) Advertised() []*commonv1.Tool {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, _ := o.page("", len(o.tools))
	return found
}

// page returns the tools whose names follow after, and whether there are more.
func (o *Owner) page(after string, size int) ([]*commonv1.Tool, bool) {
	var names []string
	for name := range o.tools {
		if name > after {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	found := []*commonv1.Tool{}
	for _, name := range names[:min(size, len(names))] {
		own := o.tools[name]
		message := own.tool.Tool.Proto()
		message.Share = own.figures.share(own.tool.MaxCallsPerMinute)
		found = append(found, message)
	}
	return found, len(names) > size
}

// Drain refuses further leases and calls; calls in progress go on.
func (o *Owner) Drain() {
	o.mu.Lock()
	o.draining = true
	o.mu.Unlock()
}

// Drained waits until no call is in progress, at most limit.
func (o *Owner) Drained(limit time.Duration) { o.waitLeft(limit) }

// Stop ends all leases and calls with UNAVAILABLE, and waits a moment for the tools to return.
func (o *Owner) Stop() {
	o.mu.Lock()
	o.draining = true
	o.leases = newLeaseTable()
	for each := range o.executions {
		each.end(archon.NewError(archon.ReasonUnavailable, "the owner of the tool is stopping", archon.WithMetadata(begunKey, "true")))
	}
	o.mu.Unlock()
	o.waitLeft(stopTime)
}

func (o *Owner) waitLeft(limit time.Duration) {
	o.mu.Lock()
	var waiting []chan struct{}
	for each := range o.executions {
		waiting = append(waiting, each.left)
	}
	o.mu.Unlock()
	timer := time.NewTimer(max(0, limit))
	defer timer.Stop()
	for _, left := range waiting {
		select {
		case <-left:
		case <-timer.C:
			return
		}
	}
}

func (o *Owner) checkOpen() error {
	if o.draining {
		return archon.NewError(archon.ReasonDraining, "the owner of the tool is stopping", archon.WithMetadata(begunKey, "false"))
	}
	return nil
}

func (o *Owner) find(name string) (*shared, error) {
	if own, ok := o.tools[name]; ok {
		return own, nil
	}
	if len(name) > 80 {
		name = name[:80]
	}
	return nil, archon.NewError(archon.ReasonNotFound, "this instance shares no tool '"+name+"'", archon.WithMetadata("tool", name))
}

func (o *Owner) grant(name string, d time.Duration, task *commonv1.TaskRef, instanceID string) (*lease, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.checkOpen(); err != nil {
		return nil, err
	}
	own, err := o.find(name)
	if err != nil {
		return nil, err
	}
	if d <= 0 {
		return nil, invalid("duration", "must be above 0 s")
	}
	granted, err := o.leases.grant(name, min(d, tools.MaxLeaseTime), own.tool.MaxCallsPerMinute, task, instanceID, time.Now())
	if err == nil {
		log("lease", granted)
	}
	return granted, err
}

// execute executes a call: it passes progress on, then returns the result.
func (o *Owner) execute(ctx context.Context, request *toolv1.ExecuteToolRequest, progress func(string) error) (*toolv1.ToolResult, error) {
	o.mu.Lock()
	if err := o.checkOpen(); err != nil {
		o.mu.Unlock()
		return nil, err
	}
	found, err := o.leases.find(request.GetLeaseId(), time.Now())
	if err != nil {
		o.mu.Unlock()
		return nil, err
	}
	running, result, limit, err := o.begin(ctx, found, request)
	o.mu.Unlock()
	if err != nil {
		log("execute", found, "outcome", "refused", "reason", archon.ToError(err, "").Reason)
		return nil, err
	}
	if result != nil {
		return result, nil
	}
	return running.follow(ctx, limit, progress)
}

// begin returns a new execution, the one in progress with this key, or its result, and the caller's time limit.
func (o *Owner) begin(ctx context.Context, l *lease, request *toolv1.ExecuteToolRequest) (*execution, *toolv1.ToolResult, time.Duration, error) {
	now := time.Now()
	own, err := o.find(l.toolName)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, each := range []*window{l.window, own.window} {
		if err := each.refusal(l.toolName, now); err != nil {
			return nil, nil, 0, err
		}
	}
	l.window.take(now)
	own.window.take(now)
	limit, err := limitOf(ctx, request, own.tool.Timeout)
	if err != nil {
		return nil, nil, 0, err
	}
	if len([]rune(request.GetIdempotencyKey())) > maxKey {
		return nil, nil, 0, invalid("idempotency_key", "must have at most "+strconv.Itoa(maxKey)+" characters")
	}
	arguments, digest, err := readArguments(l.toolName, own.schema, request.GetArgumentsJson())
	if err != nil {
		return nil, nil, 0, err
	}
	key, hasKey := keyOf(l, request.GetIdempotencyKey())
	if hasKey {
		earlier, err := o.kept.find(key, digest, now)
		if err != nil {
			return nil, nil, 0, err
		}
		if earlier != nil {
			return earlier.execution, earlier.result, limit, nil
		}
	}
	if err := o.checkRoom(l, own); err != nil {
		return nil, nil, 0, err
	}
	return o.start(ctx, l, own, arguments, limit, key, hasKey, digest), nil, limit, nil
}

func (o *Owner) start(
	ctx context.Context, l *lease, own *shared, arguments []byte, limit time.Duration, key keptKey, hasKey bool, digest [32]byte,
) *execution {
	work := archon.WithCall(context.WithoutCancel(ctx), archon.Call{
		Tenant: archon.CallOf(ctx).Tenant, Identity: archon.CallOf(ctx).Identity, RunID: l.task.GetRunId(),
		TaskID: l.task.GetTaskId(), Attempt: int(l.task.GetAttempt()),
	})
	work, span := otel.Tracer("archon").Start(work, "execute_tool "+l.toolName, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", l.toolName)))
	work, cancel := context.WithCancelCause(work)
	e := &execution{
		owner: o, name: l.toolName, leaseID: l.id, began: time.Now(), cancel: cancel, listeners: map[*listener]struct{}{},
		left: make(chan struct{}),
	}
	e.onEnd = func(e *execution) {
		o.ended(e, l, own, key, hasKey)
		span.End()
	}
	e.onLeft = func(e *execution) {
		delete(o.executions, e)
		l.calls--
		own.calls--
	}
	o.executions[e] = struct{}{}
	l.calls++
	own.calls++
	if hasKey {
		o.kept.begin(key, digest, e, time.Now())
	}
	task, _ := proto.Clone(l.task).(*commonv1.TaskRef)
	call := &tools.Call{ToolName: l.toolName, Arguments: arguments, Task: task, InstanceID: l.instanceID, Report: e.report}
	go e.run(work, own.tool, call, limit)
	return e
}

func (o *Owner) ended(e *execution, l *lease, own *shared, key keptKey, hasKey bool) {
	took := time.Since(e.began)
	ok := e.result.GetStatus() == toolv1.ToolStatus_TOOL_STATUS_SUCCESS
	outcome := e.result.GetStatus().String()
	if e.err != nil {
		outcome = string(e.err.Reason)
	}
	log("execute", l, "outcome", outcome, "seconds", took.Seconds())
	if e.result != nil {
		own.figures.count(took, ok)
	}
	if !hasKey {
		return
	}
	if !ok && own.tool.Tool.Idempotent {
		o.kept.forget(key) // a further call does no harm
		return
	}
	result := e.result
	if result == nil {
		result = failed(archon.NewError(archon.ReasonUnavailable,
			"an earlier call with this idempotency key was ended before its result was known: it may have acted")).Proto()
	}
	o.kept.keep(key, result, time.Now())
}

func (o *Owner) checkRoom(l *lease, own *shared) error {
	for _, each := range []struct {
		calls, most int
		whose       string
	}{
		{l.calls, maxCallsOfLease, "this lease"},
		{own.calls, own.tool.MaxConcurrent, "tool " + l.toolName},
		{len(o.executions), maxCalls, "the tools of this instance"},
	} {
		if each.calls >= each.most {
			return archon.NewError(archon.ReasonResourceExhausted,
				strconv.Itoa(each.most)+" calls of "+each.whose+" are in progress", archon.WithRetryDelay(time.Second))
		}
	}
	return nil
}
