package runview_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	orchestratorv1 "github.com/archon-mesh/archon/sdk/go/api/orchestrator/v1"
	"github.com/archon-mesh/archon/sdk/go/runview"
)

// course applies events, numbered from 1 on.
type course struct {
	view *runview.View
	seq  int64
}

func (c *course) apply(task string, attempt int32, event *orchestratorv1.RunEvent) {
	c.seq++
	event.RunId, event.Seq, event.Time = "run-1", c.seq, timestamppb.New(time.Unix(1_700_000_000+c.seq, 0))
	if task != "" {
		event.Task = &commonv1.TaskRef{TaskId: task, RunId: "run-1", Attempt: attempt, Epoch: 1}
	}
	c.view.Apply(archon.EventOf(event))
	c.view.Apply(archon.EventOf(event)) // a second time changes nothing
}

func part(text string) []*commonv1.Part { return []*commonv1.Part{archon.TextPart(text).Proto()} }

func TestARunIsFolded(t *testing.T) {
	c := &course{view: runview.New()}
	c.apply("", 0, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_Submitted{Submitted: &orchestratorv1.Submitted{
		Strategy: orchestratorv1.Strategy_STRATEGY_PIPELINE, Owner: "o-1", Edges: []*commonv1.Edge{{Upstream: "a", Downstream: "b"}},
	}}})
	for _, role := range []string{"a", "b"} {
		c.apply("t-"+role, 0, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_TaskState{TaskState: &orchestratorv1.TaskStateChanged{
			Role: role, State: commonv1.TaskState_TASK_STATE_SUBMITTED,
		}}})
	}
	if kind, names := c.view.WaitingFor(c.view.Task("t-b")); kind != "tasks" || names[0] != "a" {
		t.Fatalf("b waits for %s %v", kind, names)
	}
	dispatch := func(task string, attempt int32) {
		c.apply(task, attempt, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_Dispatched{Dispatched: &orchestratorv1.Dispatched{InstanceId: "i"}}})
	}
	dispatch("t-a", 1)
	c.apply("t-a", 1, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_Lost{Lost: &orchestratorv1.Lost{InstanceId: "i"}}})
	dispatch("t-a", 2)
	c.apply("t-a", 2, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_InputRequested{InputRequested: &orchestratorv1.InputRequested{
		InputId: "q", Prompt: part("Sure?"), Sequence: 3,
	}}})
	if questions := c.view.Questions(); len(questions) != 1 || questions[0].Text != "Sure?" || c.view.State != archon.StateInputRequired {
		t.Fatalf("the questions are %v in state %s", questions, c.view.State)
	}
	c.apply("t-a", 2, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_InputGiven{InputGiven: &orchestratorv1.InputGiven{InputId: "q", Parts: part("yes")}}})
	c.apply("t-a", 2, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_Result{Result: &orchestratorv1.ResultReceived{
		State: commonv1.TaskState_TASK_STATE_COMPLETED, Output: part("one"), Usage: &commonv1.Usage{InputTokens: 5},
	}}})
	dispatch("t-b", 1)
	c.apply("t-b", 1, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_Result{Result: &orchestratorv1.ResultReceived{
		State: commonv1.TaskState_TASK_STATE_COMPLETED, Output: part("two"), Usage: &commonv1.Usage{InputTokens: 7},
	}}})
	answer := c.seq
	c.apply("", 0, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_RunState{RunState: &orchestratorv1.RunStateChanged{
		State: commonv1.TaskState_TASK_STATE_COMPLETED, AnswerSeqs: []int64{answer},
	}}})
	view := c.view
	first := view.Task("t-a")
	if view.State != archon.StateCompleted || view.Output() != "two" || view.Usage().InputTokens != 12 || len(first.Attempts) != 2 ||
		first.Attempts[0].Outcome != runview.Lost || first.Attempts[1].Outcome != runview.Completed || len(view.Questions()) != 0 {
		t.Fatalf("the view is %+v, its first task %+v", view, first)
	}
}

func TestTheEndOfTheRunEndsItsTasks(t *testing.T) {
	c := &course{view: runview.New()}
	c.apply("t-a", 1, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_Dispatched{Dispatched: &orchestratorv1.Dispatched{Role: "a"}}})
	c.apply("", 0, &orchestratorv1.RunEvent{Event: &orchestratorv1.RunEvent_RunState{RunState: &orchestratorv1.RunStateChanged{
		State: commonv1.TaskState_TASK_STATE_CANCELED,
	}}})
	if task := c.view.Task("t-a"); task.Role != "a" || task.State != archon.StateCanceled || task.Attempts[0].Outcome != runview.Canceled {
		t.Fatalf("the task is %+v", task)
	}
}
