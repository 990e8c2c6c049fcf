package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

const (
	cancelGrace   = time.Second            // that a cancelled handler has to end; then its attempt ends without it
	maxUnacked    = 8 << 20                // bytes of an attempt above which checkpoints wait, and no item is published
	recordsWithin = 500 * time.Millisecond // after which recorded calls are sent without a frame that they precede
	maxOffered    = 8                      // orchestrators that an attempt was offered to and may still answer
)

// The numbers of the arms of an AgentFrame.
const (
	armProgress         = 6
	armResult           = 7
	armDelegate         = 10
	armCancelDelegation = 11
	armPublish          = 12
	armCheckpoint       = 13
	armRecord           = 14
	armBudgetRequest    = 15
	armAsk              = 23
	armSendMessage      = 24
	armSubscribe        = 25
)

// attempt is one attempt at a task, from its assignment until its result is acknowledged. It belongs to the agent, not to a
// stream; sink is the stream on which its frames leave now, nil while there is none. The server's lock guards it.
type attempt struct {
	server     *Server
	channel    *frames.Channel
	sink       *sink
	owner      string
	offeredTo  []string
	finishedAt time.Time
	parkTTL    time.Duration
	limit      int
	task       *Task // nil once there is a result
	calls      pendingCalls
	ctx        *taskContext
	cancelWork context.CancelCauseFunc
	halted     *archon.Error
	ending     bool // the outcome is known, and its result is being encoded
	timer      *time.Timer
	grace      *time.Timer
	records    []record
	recordsDue *time.Timer
	checkpoint []byte
	span       trace.Span
}

func newAttempt(server *Server, ref *commonv1.TaskRef, to *sink) *attempt {
	a := &attempt{
		server: server, channel: frames.NewChannel(ref), sink: to, owner: to.orchestratorID, parkTTL: to.parkTTL,
		limit: to.peerLimit,
	}
	a.calls.attempt = a
	return a
}

// working reports whether there is no result yet.
func (a *attempt) working() bool { return a.finishedAt.IsZero() }

// waiting reports whether the attempt only waits for its delegations.
func (a *attempt) waiting() bool { return a.working() && a.calls.delegations > 0 }

// heeds reports whether a frame of an orchestrator about the task may act on the attempt: it assigned or adopted the
// attempt, the attempt was offered to it, or it has another epoch. No orchestrator may act on the task of a RunTask.
func (a *attempt) heeds(orchestratorID string, ref *commonv1.TaskRef) bool {
	own := a.channel.Ref
	if ref.GetRunId() != own.GetRunId() || a.owner == "" {
		return false
	}
	return ref.GetEpoch() != own.GetEpoch() || orchestratorID == a.owner || slices.Contains(a.offeredTo, orchestratorID)
}

// agreed reports whether frames of a kind may be sent. True without a stream: the frame waits for the next one.
func (a *attempt) agreed(feature string) bool { return a.sink == nil || a.sink.agreed[feature] }

// start runs the handler in a goroutine of its own; the read loop does not wait for it.
func (a *attempt) start(assigned *agentv1.AssignTask) {
	a.task = newTask(a, assigned)
	ctx := archon.WithCall(context.Background(), archon.Call{
		Tenant: archon.DefaultTenant, Identity: archon.Anonymous, RunID: a.channel.Ref.GetRunId(),
		TaskID: a.channel.Ref.GetTaskId(), Attempt: int(a.channel.Ref.GetAttempt()), Role: a.server.role,
	})
	ctx = archon.WithTrace(ctx, assigned.GetTrace().GetTraceparent(), assigned.GetTrace().GetTracestate())
	ctx, a.span = startTaskSpan(ctx, a.task)
	ctx, cancel := context.WithCancelCause(ctx)
	a.cancelWork = cancel
	a.ctx = &taskContext{Context: ctx, task: a.task}
	a.server.table.running[a] = struct{}{}
	a.startTimer()
	handler := a.server.handler
	if assigned.BidRequest != nil {
		handler = a.server.bid
	}
	work, task := a.ctx, a.task
	a.server.workers.run(func() { a.run(handler, work, task) })
}

func (a *attempt) startTimer() {
	if left, ok := a.task.remaining(); ok {
		a.timer = time.AfterFunc(left, func() {
			a.server.mu.Lock()
			defer a.server.mu.Unlock()
			if left, ok := a.remaining(); ok && left > 0 {
				return // the clock was stopped meanwhile
			}
			a.halt(archon.NewError(archon.ReasonDeadlineExceeded, "the task's time is over"), true)
		})
	}
}

func (a *attempt) remaining() (time.Duration, bool) {
	if a.task == nil {
		return 0, false
	}
	return a.task.remaining()
}

// setRemaining replaces the time that the task has left, as a new owner says.
func (a *attempt) setRemaining(left time.Duration) {
	if a.task == nil || a.halted != nil || !a.working() {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.task.stopped {
		a.task.stoppedWith = left // it counts once the clock goes on
		return
	}
	a.task.deadline = time.Now().Add(left)
	a.startTimer()
}

// stopClock stops the time of the task while it waits for a person, as its orchestrator does.
func (a *attempt) stopClock() {
	if a.task == nil || a.halted != nil {
		return
	}
	a.task.stopClock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

func (a *attempt) startClock() {
	if a.task == nil || a.halted != nil || !a.working() {
		return
	}
	a.task.startClock()
	a.startTimer()
}

// names returns the ids of the attempt, for logs.
func (a *attempt) names() []any {
	ref := a.channel.Ref
	return []any{"run_id", ref.GetRunId(), "task_id", ref.GetTaskId(), "attempt", ref.GetAttempt(), "role", a.server.role}
}

// run calls the handler, and sends its outcome.
func (a *attempt) run(handler Handler, ctx context.Context, task *Task) {
	var answer Answer
	err := error(archon.NewError(archon.ReasonInternal, "the handler ended its goroutine"))
	defer func() {
		if recovered := recover(); recovered != nil {
			err = archon.FromPanic(recovered, archon.KindToolCrash, a.names()...)
		}
		a.ended(answer, err)
	}()
	answer, err = handler(ctx, task)
}

func (a *attempt) ended(answer Answer, err error) {
	server := a.server
	server.mu.Lock()
	if a.halted != nil && err != nil {
		err = a.halted
	}
	var ended *agentv1.TaskResult
	if a.working() {
		a.ending = true
		state := a.task.snapshot()
		server.mu.Unlock()
		result, content := a.encode(state, answer, err) // not under the lock: an answer may be large
		server.mu.Lock()
		server.table.handlerEnded(a)
		ended = a.finish(state, result, content)
	} else {
		server.table.handlerEnded(a)
	}
	server.table.changed()
	server.mu.Unlock()
	a.cancelWork(nil)
	a.endSpan(ended)
}

// endSpan ends the span; the caller holds no lock, because a processor of spans may take its time.
func (a *attempt) endSpan(result *agentv1.TaskResult) {
	if result != nil {
		endTaskSpan(a.span, result)
	}
}

// cancel stops the handler. The result is CANCELED, or the handler's own if it is earlier. over: no other attempt goes on
// with the task.
func (a *attempt) cancel(over bool) {
	a.halt(archon.NewError(archon.ReasonCancelled, "the task was cancelled"), over)
}

func (a *attempt) halt(cause *archon.Error, over bool) {
	if !a.working() || a.halted != nil || a.ending || a.task == nil {
		return
	}
	a.halted = cause
	if over {
		a.task.isOver.Store(true)
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.cancelWork(cause)
	a.grace = time.AfterFunc(cancelGrace, func() {
		var ended *agentv1.TaskResult
		a.server.mu.Lock()
		if a.working() && !a.ending {
			state := a.task.snapshot()
			ended = a.finish(state, a.failed(state, cause), nil)
			a.server.table.changed()
		}
		a.server.mu.Unlock()
		a.endSpan(ended)
	})
}

// send stamps the bytes of a oneof. Without a stream a sequenced frame waits for one, any other is dropped.
func (a *attempt) send(content []byte, sequenced bool) {
	if !sequenced && (!a.working() || !a.agreed("progress")) {
		return // no progress after the result
	}
	frame := a.channel.Stamp(content, sequenced)
	frame.Droppable = !sequenced
	if sequenced {
		a.server.table.recount(a)
	}
	if a.sink != nil {
		a.sink.queue.Put(frame)
	}
}

// save sends a checkpoint, and before it the calls that it rests on, as soon as there is room.
func (a *attempt) save(content []byte) {
	if a.working() && a.agreed("checkpoint") {
		a.sendRecords()
		a.checkpoint = content
		a.sendCheckpoint(false)
	}
}

func (a *attempt) sendCheckpoint(room bool) {
	if a.checkpoint != nil && (room || a.channel.PendingBytes < maxUnacked) {
		checkpoint := a.checkpoint
		a.checkpoint = nil
		a.send(checkpoint, true)
	}
}

// checkItem returns an error if an item cannot be sent, or too much waits to be stored.
func (a *attempt) checkItem(content []byte) error {
	if !a.agreed("publish") {
		return unsupported("publish")
	}
	if err := a.channel.CheckSize(content, a.limit); err != nil {
		return err
	}
	if a.channel.PendingBytes > maxUnacked {
		return archon.NewError(archon.ReasonResourceExhausted, fmt.Sprintf(
			"%d bytes of this task wait to be stored, at most %d may; publish less often", a.channel.PendingBytes, maxUnacked))
	}
	return nil
}

// flush sends the frames that must precede later ones: the checkpoint held back, and the recorded calls.
func (a *attempt) flush() {
	a.sendCheckpoint(true)
	a.sendRecords()
}

// record notes a call, which is sent soon, together with the next ones: most precede a result by then.
func (a *attempt) record(recorded record) {
	if !a.working() {
		return
	}
	a.records = append(a.records, recorded)
	if a.recordsDue == nil {
		a.recordsDue = time.AfterFunc(recordsWithin, func() {
			a.server.mu.Lock()
			defer a.server.mu.Unlock()
			a.sendRecords()
		})
	}
}

func (a *attempt) sendRecords() {
	if a.recordsDue != nil {
		a.recordsDue.Stop()
		a.recordsDue = nil
	}
	records := a.records
	a.records = nil
	if !a.agreed("record") {
		return
	}
	for _, each := range records {
		content := each.content
		if a.channel.CheckSize(content, a.limit) != nil {
			content = each.withoutPayload()
		}
		a.send(content, true)
	}
}

// sendUsage sends the usage so far, if the budget is limited: for an owner that may not know it.
func (a *attempt) sendUsage() {
	if a.task == nil || !a.task.budget.limited || a.task.usage == (archon.Usage{}) {
		return
	}
	a.progress(&agentv1.Progress{Usage: a.task.usage.Proto()})
}

func (a *attempt) progress(progress *agentv1.Progress) {
	progress.State = commonv1.TaskState_TASK_STATE_WORKING
	if content, err := frames.Content(armProgress, progress); err == nil {
		a.send(content, false)
	}
}

// sendAdopted tells an orchestrator that the attempt is being worked on: as the answer to adopt_task, or unasked.
func (a *attempt) sendAdopted(to *sink) {
	ref, _ := proto.Clone(a.channel.Ref).(*commonv1.TaskRef)
	to.put(ref.GetTaskId(), &agentv1.AgentFrame{Task: ref, Frame: &agentv1.AgentFrame_Adopted{
		Adopted: &agentv1.Adopted{LastApplied: a.channel.Received},
	}}, false)
}

// offer offers the attempt to any orchestrator, which may answer that it is over: its result, or, while there is none, that
// it is being worked on.
func (a *attempt) offer(to *sink) {
	if to.orchestratorID != a.owner && !slices.Contains(a.offeredTo, to.orchestratorID) {
		a.offeredTo = append(a.offeredTo, to.orchestratorID)
		if len(a.offeredTo) > maxOffered {
			a.offeredTo = a.offeredTo[1:]
		}
	}
	if a.working() {
		a.sendAdopted(to)
		return
	}
	for _, frame := range a.channel.Unacked() {
		to.queue.Put(frame)
	}
}

// resend sends every unacknowledged frame after a sequence again.
func (a *attempt) resend(after int64) {
	a.channel.Acked(after)
	a.server.table.recount(a)
	if a.sink != nil {
		for _, frame := range a.channel.Unacked() {
			a.sink.queue.Put(frame)
		}
		a.sendCheckpoint(false)
	}
}

// acked forgets the frames up to a sequence; this may make room for a checkpoint.
func (a *attempt) acked(sequence int64) {
	a.channel.Acked(sequence)
	a.server.table.recount(a)
	a.sendCheckpoint(false)
}

// bind moves the attempt to another stream and owner.
func (a *attempt) bind(to *sink, epoch int64) {
	a.owner, a.sink, a.parkTTL, a.limit = to.orchestratorID, to, to.parkTTL, to.peerLimit
	a.channel.Ref.Epoch = epoch
}
