// Attempts: their incoming frames, their outgoing frames, and the frames that are kept until they are acked.
package main

import (
	"context"
	"errors"
	"log"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const reasonPrefix = "ERROR_REASON_"

var errSilent = status.Error(codes.Unavailable, "nothing was heard from the orchestrator")

// failure returns an error as it is sent inside a frame.
func failure(code codes.Code, reason commonv1.ErrorReason) *commonv1.Failure {
	text := strings.ToLower(strings.TrimPrefix(reason.String(), reasonPrefix))
	return &commonv1.Failure{Code: int32(code), Reason: reason, Message: strings.ReplaceAll(text, "_", " ")}
}

// ending returns an error as the status that ends a call or a stream. `metadata` is a key and its value.
func ending(code codes.Code, reason commonv1.ErrorReason, metadata ...string) error {
	why := failure(code, reason)
	info := &errdetails.ErrorInfo{Domain: "archon.dev", Reason: strings.TrimPrefix(reason.String(), reasonPrefix)}
	if len(metadata) == 2 {
		info.Metadata = map[string]string{metadata[0]: metadata[1]}
	}
	told, err := status.New(code, why.GetMessage()).WithDetails(info)
	if err != nil {
		return err
	}
	return told.Err()
}

func (a *agent) refuse(s *session, ref *commonv1.TaskRef, why *commonv1.Failure) {
	a.put(s, &agentv1.AgentFrame{Task: ref, Frame: &agentv1.AgentFrame_Failure{Failure: why}})
}

func (a *agent) taskFrame(s *session, f *agentv1.OrchestratorFrame) {
	ref := f.GetTask()
	if ref.GetEpoch() < a.epochs[ref.GetRunId()] {
		a.refuse(s, ref, failure(codes.Aborted, commonv1.ErrorReason_ERROR_REASON_STALE_EPOCH))
		return
	}
	a.epochs[ref.GetRunId()] = ref.GetEpoch()
	for run := range maps.Keys(a.epochs) {
		if len(a.epochs) <= mostEpochs {
			break
		}
		delete(a.epochs, run)
	}
	t, again := a.tasks[keyOf(ref)], false
	if t != nil {
		a.acked(t, f.GetAck())
		if f.GetSequence() > t.received+1 {
			a.refuse(s, ref, gap(t.received+1))
			return
		}
		again = f.GetSequence() != 0 && f.GetSequence() <= t.received
		t.ackOwed = t.ackOwed || f.GetSequence() != 0
		t.received = max(t.received, f.GetSequence())
	}
	switch arm := f.GetFrame().(type) {
	case *agentv1.OrchestratorFrame_AssignTask:
		if t == nil {
			a.assign(s, f, arm.AssignTask)
		}
	case *agentv1.OrchestratorFrame_CancelTask:
		if t != nil {
			t.halt(errCanceled)
		}
	case *agentv1.OrchestratorFrame_AdoptTask:
		a.adopt(s, f, t, arm.AdoptTask)
	case *agentv1.OrchestratorFrame_Discarded:
		a.forget(t)
	case *agentv1.OrchestratorFrame_Failure:
		a.told(t, arm.Failure)
	default:
		nothingButAnAck := f.GetFrame() == nil && f.GetAck() > 0 && len(f.ProtoReflect().GetUnknown()) == 0
		if !nothingButAnAck && !again {
			a.refuse(s, ref, failure(codes.Unimplemented, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_FRAME))
		}
	}
	if t != nil && !t.working && len(t.unacked) == 0 {
		a.forget(t)
	}
}

func (a *agent) assign(s *session, f *agentv1.OrchestratorFrame, assigned *agentv1.AssignTask) {
	ref := f.GetTask()
	if f.GetSequence() > 1 {
		a.refuse(s, ref, gap(1))
		return
	}
	working := 0
	for one, t := range a.tasks {
		if one.id == ref.GetTaskId() && one.attempt > ref.GetAttempt() {
			return // a late frame of a superseded attempt
		}
		if one.id == ref.GetTaskId() {
			a.forget(t)
		} else if t.working {
			working++
		}
	}
	if a.draining {
		a.reject(s, f, failure(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_DRAINING))
		return
	}
	if working >= max(int(a.registration.GetMaxTasks()), len(a.sessions)) {
		a.reject(s, f, noCapacity())
		return
	}
	ctx, halt := context.WithCancelCause(context.Background())
	t := &task{ref: ref, session: s, halt: halt, working: true, received: f.GetSequence(), ackOwed: f.GetSequence() > 0}
	if left := assigned.GetRemaining(); left != nil {
		t.timer = time.AfterFunc(left.AsDuration(), func() { halt(errTimeout) })
	}
	a.tasks[keyOf(ref)] = t
	log.Printf("begin %s %d", ref.GetTaskId(), ref.GetAttempt())
	go a.work(ctx, t, assigned)
}

func (a *agent) work(ctx context.Context, t *task, assigned *agentv1.AssignTask) {
	result, record := a.handle(ctx, assigned, func(text string) { a.locked(func() { a.say(t, text) }) })
	if result == nil {
		result = halted(context.Cause(ctx))
	}
	a.locked(func() { a.finish(t, result, record) })
}

func halted(cause error) *agentv1.TaskResult {
	if errors.Is(cause, errCanceled) {
		why := failure(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED)
		return &agentv1.TaskResult{State: commonv1.TaskState_TASK_STATE_CANCELED, Failure: why}
	}
	why := failure(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_DEADLINE_EXCEEDED)
	return &agentv1.TaskResult{State: commonv1.TaskState_TASK_STATE_FAILED, Failure: why}
}

// say streams text of the answer as a delta, which may be dropped. The answer is not dropped.
func (a *agent) say(t *task, text string) {
	offset := t.written
	t.written += int64(len(text))
	s := t.session
	if s == nil || !t.working || !slices.Contains(s.agreed, "progress") || len(s.frames) > mostQueued {
		return
	}
	a.send(t, &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Progress{Progress: &agentv1.Progress{
		State:   commonv1.TaskState_TASK_STATE_WORKING,
		Offset:  offset,
		Content: &agentv1.Progress_Text{Text: text},
	}}}, false)
}

// finish parks the result until it is acked or expires.
func (a *agent) finish(t *task, result *agentv1.TaskResult, record *agentv1.CallRecord) {
	log.Printf("end %s %d %s", t.ref.GetTaskId(), t.ref.GetAttempt(), result.GetState())
	if a.tasks[keyOf(t.ref)] != t {
		return // it was forgotten meanwhile
	}
	limit, park, records := hardCap, 25*time.Hour, true
	if t.session != nil {
		limit, park, records = t.session.limit, t.session.parkTTL, slices.Contains(t.session.agreed, "record")
	}
	if record != nil && records && proto.Size(record) < limit-1024 {
		a.send(t, &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Record{Record: record}}, true)
	}
	if proto.Size(result) > limit-1024 {
		why := failure(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_FRAME_TOO_LARGE)
		result = &agentv1.TaskResult{State: commonv1.TaskState_TASK_STATE_FAILED, Failure: why}
	}
	a.send(t, &agentv1.AgentFrame{Frame: &agentv1.AgentFrame_Result{Result: result}}, true)
	t.working = false
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(park, func() { a.locked(func() { a.forget(t) }) })
	a.news.Broadcast()
}

func (a *agent) send(t *task, frame *agentv1.AgentFrame, sequenced bool) {
	frame.Task, frame.Ack, t.ackOwed = t.ref, t.received, false
	if sequenced {
		t.sent++
		frame.Sequence = t.sent
		t.unacked = append(t.unacked, frame)
	}
	a.put(t.session, frame)
}

func (a *agent) acked(t *task, sequence int64) {
	for len(t.unacked) > 0 && t.unacked[0].GetSequence() <= sequence {
		t.unacked = t.unacked[1:]
	}
}

func (a *agent) sendAgain(t *task, after int64) {
	a.acked(t, after)
	for _, frame := range t.unacked {
		// a copy, because the first may still be queued
		again, ok := proto.Clone(frame).(*agentv1.AgentFrame)
		if ok {
			again.Task, again.Ack = t.ref, t.received
			a.put(t.session, again)
		}
	}
}

func (a *agent) adopt(s *session, f *agentv1.OrchestratorFrame, t *task, adopt *agentv1.AdoptTask) {
	if t == nil {
		a.reject(s, f, failure(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_NOT_HELD))
		return
	}
	t.ref, t.session = f.GetTask(), s
	log.Printf("adopted %s %d epoch %d", t.ref.GetTaskId(), t.ref.GetAttempt(), t.ref.GetEpoch())
	if t.working {
		if adopt.GetRemaining() != nil && t.timer != nil {
			t.timer.Reset(adopt.GetRemaining().AsDuration())
		}
		adopted := &agentv1.AgentFrame_Adopted{Adopted: &agentv1.Adopted{LastApplied: t.received}}
		a.put(s, &agentv1.AgentFrame{Task: t.ref, Frame: adopted})
	}
	a.sendAgain(t, adopt.GetLastApplied())
}

func (a *agent) told(t *task, why *commonv1.Failure) {
	if t == nil || why.GetReason() != commonv1.ErrorReason_ERROR_REASON_SEQUENCE_GAP {
		log.Printf("refused: %s", why)
		return
	}
	expected, err := strconv.ParseInt(why.GetMetadata()["expected"], 10, 64)
	if err == nil {
		a.sendAgain(t, expected-1)
	}
}

// forget also stops an attempt in progress: its result could not count.
func (a *agent) forget(t *task) {
	if t == nil {
		return
	}
	if a.tasks[keyOf(t.ref)] == t {
		delete(a.tasks, keyOf(t.ref))
	}
	t.session = nil
	t.halt(errCanceled)
	if t.timer != nil {
		t.timer.Stop()
	}
	a.news.Broadcast()
}
