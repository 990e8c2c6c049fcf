package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	archontest "github.com/archon-mesh/archon/sdk/go/testing"
)

func traceOf(traceparent string) *commonv1.TraceContext {
	return &commonv1.TraceContext{Traceparent: traceparent}
}

func TestAFailureRoundTrips(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(context.Context, *agent.Task) (agent.Answer, error) {
		return agent.Answer{}, archon.NewError(archon.ReasonBudgetExhausted, "too little is left",
			archon.WithMetadata("left", "3"), archon.WithRetryDelay(1500*time.Millisecond), archon.WithViolation("goal", "too long"),
			archon.WithCause(archon.NewError(archon.ReasonUnavailable, "a model is away")))
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	err := archon.FromFailure(peer.Result(ref).GetFailure())
	if !errors.Is(err, archon.ReasonBudgetExhausted) || !errors.Is(err, archon.ErrUnavailable) || err.Metadata["left"] != "3" ||
		*err.RetryDelay != 1500*time.Millisecond || err.Violations[0].Field != "goal" || err.Kind != archon.KindInputBudget {
		t.Fatalf("the error is %#v", err)
	}
}

func TestAPanicIsATypedFailureAndEndsNothingElse(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		if task.Text() == "panic" {
			panic("a secret")
		}
		return agent.Text("fine"), nil
	}))
	peer.Open()
	bad, good := peer.Ref("task-1"), peer.Ref("task-2")
	peer.Assign(bad, "panic")
	failure := peer.Result(bad).GetFailure()
	err := archon.FromFailure(failure)
	if !errors.Is(err, archon.ReasonInternal) || err.Kind != archon.KindToolCrash || strings.Contains(failure.String(), "secret") {
		t.Fatalf("the failure is %v", failure)
	}
	peer.Assign(good, "")
	if text := peer.Text(good); text != "fine" {
		t.Fatalf("the other answer is %q", text)
	}
}

func TestARefusedTaskIsRejectedForGood(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(context.Context, *agent.Task) (agent.Answer, error) {
		return agent.Answer{}, agent.Rejected("not my work")
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	result := peer.Result(ref)
	if result.GetState() != commonv1.TaskState_TASK_STATE_REJECTED || result.GetFailure().GetMessage() != "not my work" {
		t.Fatalf("the result is %v", result)
	}
}

func TestACancelledTaskIsCanceled(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", forever))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Cancel(ref, "enough")
	if result := peer.Result(ref); result.GetState() != commonv1.TaskState_TASK_STATE_CANCELED {
		t.Fatalf("the result is %v", result)
	}
}

// C4: a superseded attempt goes on elsewhere: work that it has begun in other systems must go on.
func TestC4ASupersededAttemptIsNotOver(t *testing.T) {
	over := make(chan bool, 1)
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		<-ctx.Done()
		over <- task.IsOver()
		return agent.Answer{}, ctx.Err()
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Cancel(ref, "superseded")
	if <-over {
		t.Fatal("the task is over")
	}
}

// A handler that ignores its context loses its attempt after a second, and keeps its slot.
func TestAHandlerThatIgnoresItsContextIsAbandoned(t *testing.T) {
	release := make(chan struct{})
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(context.Context, *agent.Task) (agent.Answer, error) {
		<-release
		return agent.Text("late"), nil
	}, agent.WithMaxTasks(1)))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Cancel(ref, "")
	if result := peer.Result(ref); result.GetState() != commonv1.TaskState_TASK_STATE_CANCELED {
		t.Fatalf("the result is %v", result)
	}
	if credit := peer.Receive("credit", nil).GetCredit(); credit.GetMaxTasks() != 0 {
		t.Fatalf("the credit is %v", credit)
	}
	close(release)
	if credit := peer.Receive("credit", nil).GetCredit(); credit.GetMaxTasks() != 1 {
		t.Fatalf("the credit after its end is %v", credit)
	}
	peer.Never("result", ref, 20*time.Millisecond)
}

// C5: a copy of an assignment starts nothing, also once the attempt is over.
func TestC5ACopyOfAnAssignmentStartsNothing(t *testing.T) {
	var started atomic.Int32
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(context.Context, *agent.Task) (agent.Answer, error) {
		started.Add(1)
		return agent.Text("once"), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	assigned := peer.Assignment(ref, "")
	peer.Send(assigned, assigned)
	peer.Text(ref)
	peer.Heartbeat(1)
	peer.Receive("heartbeat", nil)
	peer.Send(assigned)
	peer.Heartbeat(2)
	peer.Receive("heartbeat", nil)
	if started.Load() != 1 {
		t.Fatalf("the handler ran %d times", started.Load())
	}
}

// C5: a gap is answered by a failure with the expected sequence.
func TestC5AGapIsAnswered(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", forever))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Send(&agentv1.OrchestratorFrame{Task: ref, Sequence: 5, Frame: &agentv1.OrchestratorFrame_CancelTask{
		CancelTask: &agentv1.CancelTask{},
	}})
	if err := peer.Failure(); !errors.Is(err, archon.ReasonSequenceGap) || err.Metadata["expected"] != "2" {
		t.Fatalf("the failure is %v", err)
	}
}

// C5: after a gap the agent resends from the expected sequence.
func TestC5FramesAreSentAgainAfterAGap(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		if err := task.Save([]byte("one")); err != nil {
			return agent.Answer{}, err
		}
		return agent.Text("done"), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	if sequence := peer.Receive("result", ref).GetSequence(); sequence != 2 {
		t.Fatalf("the sequence is %d", sequence)
	}
	peer.Receive("checkpoint", ref)
	gap := archon.NewError(archon.ReasonSequenceGap, "", archon.WithMetadata("expected", "1")).ToFailure()
	peer.Send(&agentv1.OrchestratorFrame{Task: ref, Frame: &agentv1.OrchestratorFrame_Failure{Failure: gap}})
	if again := peer.Receive("checkpoint", ref); again.GetSequence() != 1 {
		t.Fatalf("the checkpoint came again as %v", again)
	}
	if again := peer.Receive("result", ref); again.GetSequence() != 2 {
		t.Fatalf("the result came again as %v", again)
	}
}

// C5: a result is parked until it is acknowledged, and delivered on the next stream.
func TestC5AParkedResultIsAdopted(t *testing.T) {
	server := archontest.Start(t, "cook", func(ctx context.Context, _ *agent.Task) (agent.Answer, error) {
		time.Sleep(50 * time.Millisecond)
		return agent.Text("parked"), nil
	})
	peer := archontest.Dial(t, server)
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Heartbeat(1)
	peer.Receive("heartbeat", nil)
	peer.Break()
	time.Sleep(100 * time.Millisecond)
	next := archontest.Dial(t, server)
	next.ID, next.Epoch = "orchestrator-2", 2
	next.Open()
	adopted := next.Ref("task-1")
	next.Adopt(adopted, 0)
	frame := next.Receive("result", adopted)
	if frame.GetTask().GetEpoch() != 2 || archon.TextOf(frame.GetResult().GetOutput()) != "parked" {
		t.Fatalf("the result is %v", frame)
	}
}

// C5: an attempt in progress answers adopt_task by adopted; a task that is not held by NOT_HELD.
func TestC5AnAttemptInProgressIsAdopted(t *testing.T) {
	server := archontest.Start(t, "cook", forever)
	peer := archontest.Dial(t, server)
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Heartbeat(1)
	peer.Receive("heartbeat", nil)
	peer.Break()
	next := archontest.Dial(t, server)
	next.Open()
	next.Adopt(ref, 0)
	if adopted := next.Receive("adopted", ref); adopted.GetAdopted().GetLastApplied() != 1 || adopted.GetSequence() != 0 {
		t.Fatalf("adopted is %v", adopted)
	}
	other := next.Ref("task-2")
	next.Adopt(other, 0)
	if err := archon.FromFailure(next.Receive("reject", other).GetReject().GetFailure()); !errors.Is(err, archon.ReasonNotHeld) {
		t.Fatalf("the reject is %v", err)
	}
}

// C5: every five seconds an agent offers what no orchestrator has asked for.
func TestC5WhatNoOrchestratorAsksForIsOffered(t *testing.T) {
	if testing.Short() {
		t.Skip("takes five seconds")
	}
	t.Parallel()
	server := archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		if task.Text() == "work" {
			return forever(ctx, task)
		}
		return agent.Text("done"), nil
	})
	peer := archontest.Dial(t, server)
	peer.Open()
	working, done := peer.Ref("task-1"), peer.Ref("task-2")
	peer.Assign(working, "work")
	peer.Assign(done, "done")
	peer.Receive("result", done)
	peer.Break()
	next := archontest.Dial(t, server)
	next.ID = "orchestrator-2"
	next.Open()
	deadline := time.Now().Add(9 * time.Second)
	for time.Now().Before(deadline) {
		next.Heartbeat(1)
		next.Receive("heartbeat", nil)
		time.Sleep(time.Second)
	}
	next.Receive("adopted", working)
	next.Receive("result", done)
}

// C5: an epoch below the highest of the run is refused.
func TestC5AStaleEpochIsRefused(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", forever))
	peer.Open()
	peer.Epoch = 3
	peer.Assign(peer.Ref("task-1"), "")
	peer.Epoch = 2
	peer.Assign(peer.Ref("task-2"), "")
	if err := peer.Failure(); !errors.Is(err, archon.ReasonStaleEpoch) || err.Metadata["epoch"] != "3" {
		t.Fatalf("the failure is %v", err)
	}
}

// C4: a newer attempt at a task replaces the older one.
func TestC4ANewerAttemptReplacesTheOlder(t *testing.T) {
	cancelled := make(chan struct{})
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		if task.Attempt() == 2 {
			return agent.Text("second"), nil
		}
		<-ctx.Done()
		close(cancelled)
		return agent.Answer{}, ctx.Err()
	}))
	peer.Open()
	peer.Assign(peer.Ref("task-1"), "")
	second := peer.Ref("task-1")
	second.Attempt = 2
	peer.Assign(second, "")
	if text := peer.Text(second); text != "second" {
		t.Fatalf("the answer is %q", text)
	}
	<-cancelled
	peer.Never("result", peer.Ref("task-1"), 20*time.Millisecond)
}

// Leaving: an agent that drains finishes its tasks, takes no new ones, and ends its streams with OK.
func TestLeavingAnAgentThatDrainsFinishesItsTasks(t *testing.T) {
	release := make(chan struct{})
	server := archontest.Start(t, "cook", func(context.Context, *agent.Task) (agent.Answer, error) {
		<-release
		return agent.Text("finished"), nil
	})
	peer := archontest.Dial(t, server)
	peer.Open()
	ref, late := peer.Ref("task-1"), peer.Ref("task-2")
	peer.Assign(ref, "")
	peer.Heartbeat(1)
	peer.Receive("heartbeat", nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.Stop(5 * time.Second)
	}()
	peer.Receive("drain", nil)
	if credit := peer.Receive("credit", nil).GetCredit(); credit.GetMaxTasks() != 0 {
		t.Fatalf("the credit is %v", credit)
	}
	peer.Assign(late, "")
	if err := archon.FromFailure(peer.Receive("reject", late).GetReject().GetFailure()); !errors.Is(err, archon.ReasonDraining) {
		t.Fatalf("the reject is %v", err)
	}
	close(release)
	if text := peer.Text(ref); text != "finished" {
		t.Fatalf("the answer is %q", text)
	}
	if err := peer.Ended(); err != nil {
		t.Fatalf("the stream ended with %v", err)
	}
	<-stopped
}
