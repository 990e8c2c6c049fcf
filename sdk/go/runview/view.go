// Package runview folds the events of a run into its view: states, attempts, questions, delegations, usage, and why tasks
// wait. A view has no clock but the times of the events.
//
//	view := runview.New()
//	for event, err := range client.Watch(ctx, runID) {
//		if err != nil { ... }
//		view.Apply(event)
//	}
package runview

import (
	"strings"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	orchestratorv1 "github.com/archon-mesh/archon/sdk/go/api/orchestrator/v1"
)

// View is a run as its events tell it: apply them in order, from the first one on. Times are those of the events, zero if the
// event has not occurred. It is not safe for concurrent use.
type View struct {
	RunID    string
	Strategy string // pipeline, agent or plan
	// State is WORKING from the first dispatch on, INPUT_REQUIRED while a question is open.
	State           archon.TaskState
	Started         time.Time
	Ended           time.Time
	Failure         *archon.Error
	CancelRequested time.Time
	CancelReason    string
	Edges           [][2]string // pairs of roles: tasks of the second one wait for the first one
	Tasks           []*Task     // in the order of their creation
	Plan            *commonv1.Plan
	Messages        []*Message
	Pauses          []Pause
	Owner           string // id of the owner's process
	Claims          []Claim
	LastSeq         int64 // of the last durable event that was applied

	byID       map[string]*Task
	givenPlan  string // the task that stands for a planner if the plan came with the submit
	dispatched bool
	answerSeqs []int64
}

// Pause is a pause of a run; Ended is zero if the run was not resumed.
type Pause struct{ Started, Ended time.Time }

// Claim is a claim of a run under a new epoch; Previous is the owner before, the same one after a restart.
type Claim struct {
	Time            time.Time
	Owner, Previous string
	Epoch           int64
}

// New returns the view of a run without events.
func New() *View { return &View{State: archon.StateSubmitted, byID: map[string]*Task{}} }

// Apply folds one event. One that was applied before, or is of an unknown kind, changes nothing.
func (v *View) Apply(event *archon.Event) {
	if event.Seq > 0 {
		if event.Seq <= v.LastSeq {
			return
		}
		v.LastSeq = event.Seq
	}
	if event.Kind == "" {
		return
	}
	if event.RunID != "" {
		v.RunID = event.RunID
	}
	v.applyToRun(event)
	if event.TaskID != "" && event.TaskID != v.givenPlan {
		v.applyToTask(event)
	}
	if event.Seq > 0 && v.Ended.IsZero() {
		v.State = archon.StateSubmitted
		if v.dispatched {
			v.State = archon.StateWorking
		}
		if len(v.Questions()) > 0 {
			v.State = archon.StateInputRequired
		}
	}
}

// Task returns a task by its id; nil if there is none.
func (v *View) Task(id string) *Task { return v.byID[id] }

// Paused reports whether the run is paused: no task is dispatched until it is resumed.
func (v *View) Paused() bool {
	return v.Ended.IsZero() && len(v.Pauses) > 0 && v.Pauses[len(v.Pauses)-1].Ended.IsZero()
}

// Questions returns the open questions.
func (v *View) Questions() []*Question {
	var open []*Question
	if !v.Ended.IsZero() {
		return nil
	}
	for _, task := range v.Tasks {
		if question := task.Question(); question != nil {
			open = append(open, question)
		}
	}
	return open
}

// Usage returns the usage of all attempts, as far as events have it.
func (v *View) Usage() archon.Usage {
	var sum archon.Usage
	for _, task := range v.Tasks {
		sum = sum.Add(task.Usage())
	}
	return sum
}

// Output returns the text of the final answers; if there are several, each below the name of its role. Empty before the end.
func (v *View) Output() string {
	var answers []*Task
	for _, seq := range v.answerSeqs {
		for _, task := range v.Tasks {
			if task.ResultSeq == seq {
				answers = append(answers, task)
			}
		}
	}
	if len(answers) == 1 {
		return answers[0].Answer
	}
	texts := make([]string, len(answers))
	for i, task := range answers {
		texts[i] = task.Label() + ":\n" + task.Answer
	}
	return strings.Join(texts, "\n\n")
}

// Predecessors returns the tasks that must complete before a task: the named ones, else the tasks of the roles upstream.
func (v *View) Predecessors(task *Task) []*Task {
	var found []*Task
	if len(task.Predecessors) > 0 {
		for _, id := range task.Predecessors {
			if other := v.byID[id]; other != nil {
				found = append(found, other)
			}
		}
		return found
	}
	if task.ParentTaskID != "" || task.StepID != "" {
		return nil
	}
	for _, edge := range v.Edges {
		if edge[1] != task.Role {
			continue
		}
		for _, other := range v.Tasks {
			if other.Role == edge[0] && other.ParentTaskID == "" && other.StepID == "" {
				found = append(found, other)
			}
		}
	}
	return found
}

// WaitingFor returns why a task waits: tasks (with their labels), person, resume or instance; empty if it waits for nothing.
func (v *View) WaitingFor(task *Task) (kind string, names []string) {
	if !v.Ended.IsZero() || task.State.Final() {
		return "", nil
	}
	if task.State == archon.StateInputRequired {
		return "person", nil
	}
	submitted := task.State == archon.StateSubmitted
	if submitted {
		for _, other := range v.Predecessors(task) {
			if other.State != archon.StateCompleted {
				names = append(names, other.Label())
			}
		}
	} else {
		names = v.delegates(task)
	}
	switch {
	case len(names) > 0:
		return "tasks", names
	case !submitted:
		return "", nil
	case v.Paused():
		return "resume", nil
	}
	return "instance", nil
}

// delegates returns the roles whose answers to its delegations an attempt waits for.
func (v *View) delegates(task *Task) []string {
	attempt := task.Attempt()
	if attempt == nil {
		return nil
	}
	var roles []string
	seen := map[string]bool{}
	for _, delegation := range attempt.Delegations {
		child := v.byID[delegation.ChildTaskID]
		if delegation.Cancelled.IsZero() && child != nil && !child.State.Final() && !seen[child.Role] {
			seen[child.Role] = true
			roles = append(roles, child.Role)
		}
	}
	return roles
}

func (v *View) applyToRun(event *archon.Event) {
	now := event.Time
	switch arm := event.Proto.GetEvent().(type) {
	case *orchestratorv1.RunEvent_Submitted:
		v.Started, v.Owner = now, arm.Submitted.GetOwner()
		v.Strategy = strategyName(arm.Submitted.GetStrategy())
		if arm.Submitted.GetWithoutPlanner() {
			v.givenPlan = event.RunID + ".1"
		}
		if v.Strategy != "agent" { // its tasks do not wait for edges
			for _, edge := range arm.Submitted.GetEdges() {
				v.Edges = append(v.Edges, [2]string{edge.GetUpstream(), edge.GetDownstream()})
			}
		}
	case *orchestratorv1.RunEvent_Claimed:
		v.Claims = append(v.Claims, Claim{now, arm.Claimed.GetOwner(), v.Owner, arm.Claimed.GetEpoch()})
		v.Owner = arm.Claimed.GetOwner()
	case *orchestratorv1.RunEvent_CancelRequested:
		v.CancelRequested, v.CancelReason = now, arm.CancelRequested.GetReason()
	case *orchestratorv1.RunEvent_Paused:
		if !v.Paused() {
			v.Pauses = append(v.Pauses, Pause{Started: now})
		}
	case *orchestratorv1.RunEvent_Resumed:
		if v.Paused() {
			v.Pauses[len(v.Pauses)-1].Ended = now
		}
	case *orchestratorv1.RunEvent_Planned:
		v.Plan = arm.Planned.GetPlan()
	case *orchestratorv1.RunEvent_RunState:
		if state := archon.StateOf(arm.RunState.GetState()); state.Final() {
			v.State, v.Failure, v.Ended = state, failureOf(arm.RunState.GetFailure()), now
			v.answerSeqs = arm.RunState.GetAnswerSeqs()
			for _, task := range v.Tasks { // no event states the end of tasks that the end of the run interrupts
				if !task.State.Final() {
					task.end(now, archon.StateCanceled, nil)
				}
			}
		}
	}
}

func (v *View) applyToTask(event *archon.Event) {
	task := v.byID[event.TaskID]
	if task == nil {
		task = v.newTask(event)
		v.byID[event.TaskID] = task
		v.Tasks = append(v.Tasks, task)
	}
	task.apply(event)
	v.dispatched = v.dispatched || event.Kind == "dispatched"
	v.applyMessages(event, task)
}

func (v *View) newTask(event *archon.Event) *Task {
	created := event.Proto.GetTaskState()
	task := &Task{
		ID: event.TaskID, Role: roleOf(event.Proto), Created: event.Time, ParentTaskID: created.GetParentTaskId(),
		StepID: created.GetStepId(), Predecessors: created.GetPredecessors(), State: archon.StateSubmitted,
		ToolCalls: map[string]string{},
	}
	if task.StepID == "" && created != nil && v.Strategy == "plan" && task.ParentTaskID == "" {
		switch {
		case len(task.Predecessors) > 0:
			task.Purpose = "answer"
		case created.GetAlign():
			task.Purpose = "check of the plan"
		default:
			task.Purpose = "plan"
		}
	}
	return task
}

func strategyName(strategy orchestratorv1.Strategy) string {
	name, ok := orchestratorv1.Strategy_name[int32(strategy)]
	if !ok || strategy == 0 {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(name, "STRATEGY_"))
}

func failureOf(failure *commonv1.Failure) *archon.Error {
	if failure.GetKind() == "" && failure.GetMessage() == "" {
		return nil
	}
	return archon.FromFailure(failure)
}

// roleOf returns the role that an event names.
func roleOf(event *orchestratorv1.RunEvent) string {
	arm := event.ProtoReflect().WhichOneof(event.ProtoReflect().Descriptor().Oneofs().ByName("event"))
	if arm == nil || arm.Message() == nil {
		return ""
	}
	role := arm.Message().Fields().ByName("role")
	if role == nil {
		return ""
	}
	return event.ProtoReflect().Get(arm).Message().Get(role).String()
}
