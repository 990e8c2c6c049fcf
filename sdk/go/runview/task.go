package runview

import (
	"strings"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	orchestratorv1 "github.com/archon-mesh/archon/sdk/go/api/orchestrator/v1"
)

// textKept is how many characters of a text are kept, its last ones.
const textKept = 2_000

// Outcome says how an attempt ended.
type Outcome string

// The outcomes.
const (
	Working   Outcome = "working"
	Completed Outcome = "completed"
	Failed    Outcome = "failed"
	Canceled  Outcome = "canceled"
	Rejected  Outcome = "rejected" // the instance rejected the attempt, or the role refused the task
	GivenBack Outcome = "given back"
	Retried   Outcome = "retried"
	Lost      Outcome = "lost"
	Asked     Outcome = "asked" // it ended with a question to a person
)

// Task is one task of a run.
type Task struct {
	ID           string
	Role         string
	Created      time.Time
	ParentTaskID string // the task that delegated this one; empty if none did
	StepID       string // the step of the plan that the task executes; empty if none
	Purpose      string // of the planner's task: plan, check of the plan, or answer
	Predecessors []string
	State        archon.TaskState
	Ended        time.Time
	Attempts     []*Attempt
	Questions    []*Question
	Failure      *archon.Error // the failure that the task ended with
	LastFailure  *archon.Error // the last failure, also of an attempt that is retried
	Stopping     *archon.Error // why the task is being stopped
	Text         string        // the last 2,000 characters of the last attempt's text
	Thinking     string        // of the model's thinking, until text or a tool call follows it
	Written      int64         // bytes of the last attempt's text
	Answer       string        // the text of the result
	ToolCalls    map[string]string
	ResultSeq    int64 // the event with the result; 0 before it
	Reused       bool  // whether the answer was taken over from a forked run
	Version      int64 // of the answer in shared memory

	topics []string // of the last attempt's subscriptions
}

// Attempt is one dispatch of a task to an instance; Ended is zero while it goes on.
type Attempt struct {
	Number      int
	InstanceID  string
	Started     time.Time
	Ended       time.Time
	Outcome     Outcome
	Failure     *archon.Error
	Usage       archon.Usage
	RetryTime   time.Time // the earliest time of the next attempt; zero if it may start at once
	Delegations []*Delegation
	Discarded   bool // whether a result came too late
}

// Delegation is a delegation of an attempt, which ends with the delegated task, unless it was refused or cancelled before.
type Delegation struct {
	ID          string
	ChildTaskID string
	Role        string
	Started     time.Time
	Cancelled   time.Time
	Refusal     *archon.Error
}

// Question is a question of a task to a person; Ended is the time of the answer, or at which it was withdrawn.
type Question struct {
	InputID    string // by which Client.Respond answers it
	TaskID     string
	Role       string
	Text       string
	SchemaJSON string
	IsApproval bool
	Attempt    int
	Continues  bool // whether the attempt goes on meanwhile
	Asked      time.Time
	Ended      time.Time
	Answer     string
	Decision   string
	Identity   string
	TimedOut   string // the policy that was applied when no answer came in time
}

// Label returns the display name: the role, and the step or the purpose of the planner's task.
func (t *Task) Label() string {
	if detail := t.StepID + t.Purpose; detail != "" {
		return t.Role + " (" + detail + ")"
	}
	return t.Role
}

// Attempt returns the last attempt; nil before the first dispatch.
func (t *Task) Attempt() *Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return t.Attempts[len(t.Attempts)-1]
}

// Question returns the open question; nil if there is none: a task asks one at a time.
func (t *Task) Question() *Question {
	if len(t.Questions) == 0 || !t.Questions[len(t.Questions)-1].Ended.IsZero() {
		return nil
	}
	return t.Questions[len(t.Questions)-1]
}

// Usage returns the usage of all attempts, as far as events have it.
func (t *Task) Usage() archon.Usage {
	var sum archon.Usage
	for _, attempt := range t.Attempts {
		sum = sum.Add(attempt.Usage)
	}
	return sum
}

// attempt returns the attempt that an event is about: one that is not kept if there is none.
func (t *Task) attempt(number int, now time.Time) *Attempt {
	for i := len(t.Attempts) - 1; i >= 0; i-- {
		if number == 0 || t.Attempts[i].Number == number {
			return t.Attempts[i]
		}
	}
	return &Attempt{Number: number, Started: now, Outcome: Working}
}

func (t *Task) apply(event *archon.Event) {
	now, attempt := event.Time, t.attempt(event.Attempt, event.Time)
	spend(attempt, event.Proto)
	switch arm := event.Proto.GetEvent().(type) {
	case *orchestratorv1.RunEvent_TaskState:
		t.changeState(attempt, arm.TaskState, now)
	case *orchestratorv1.RunEvent_Dispatched:
		t.closeQuestion(now)
		t.State, t.Text, t.Thinking, t.Written = archon.StateWorking, "", "", 0
		t.Attempts = append(t.Attempts, &Attempt{
			Number: event.Attempt, InstanceID: arm.Dispatched.GetInstanceId(), Started: now, Outcome: Working,
		})
	case *orchestratorv1.RunEvent_Result:
		t.endWithResult(event, arm.Result)
	case *orchestratorv1.RunEvent_Lost:
		t.waitAgain(attempt, Lost, arm.Lost.GetFailure(), now)
	case *orchestratorv1.RunEvent_Rejected:
		outcome := Rejected
		if _, given := arm.Rejected.GetFailure().GetMetadata()["given_back"]; given {
			outcome = GivenBack
		}
		if arm.Rejected.NotBefore != nil {
			attempt.RetryTime = arm.Rejected.GetNotBefore().AsTime()
		}
		t.waitAgain(attempt, outcome, arm.Rejected.GetFailure(), now)
	case *orchestratorv1.RunEvent_Retry:
		if arm.Retry.Resolution != nil {
			return // no attempt has failed
		}
		t.closeQuestion(now)
		if arm.Retry.NotBefore != nil {
			attempt.RetryTime = arm.Retry.GetNotBefore().AsTime()
		}
		t.waitAgain(attempt, Retried, arm.Retry.GetFailure(), now)
	case *orchestratorv1.RunEvent_Discarded:
		attempt.Discarded = true
		if attempt == t.Attempt() && attempt.Ended.IsZero() { // it was ordered to stop
			t.end(now, archon.StateCanceled, t.Stopping)
		}
	case *orchestratorv1.RunEvent_InputRequested:
		asked := arm.InputRequested
		t.ask(attempt, &Question{
			InputID: asked.GetInputId(), Text: archon.TextOf(asked.GetPrompt()), SchemaJSON: asked.GetSchemaJson(),
			IsApproval: asked.GetKind() == commonv1.QuestionKind_QUESTION_KIND_APPROVAL,
			Continues:  asked.GetSequence() > 0 && attempt == t.Attempt(),
		}, event)
	case *orchestratorv1.RunEvent_ApprovalRequested:
		t.ask(attempt, &Question{
			InputID: arm.ApprovalRequested.GetInputId(), Text: archon.TextOf(arm.ApprovalRequested.GetPrompt()), IsApproval: true,
		}, event)
	case *orchestratorv1.RunEvent_InputGiven:
		t.answer(attempt, arm.InputGiven, now)
	case *orchestratorv1.RunEvent_QuestionTimedOut:
		for _, question := range t.Questions {
			if question.InputID == arm.QuestionTimedOut.GetInputId() {
				question.TimedOut = enumName(commonv1.TimeoutPolicy_name, "TIMEOUT_POLICY_", int32(arm.QuestionTimedOut.GetPolicy()))
			}
		}
	case *orchestratorv1.RunEvent_Delegated:
		attempt.Delegations = append(attempt.Delegations, &Delegation{
			arm.Delegated.GetDelegationId(), arm.Delegated.GetChildTaskId(), arm.Delegated.GetRole(), now, time.Time{},
			failureOf(arm.Delegated.GetFailure()),
		})
	case *orchestratorv1.RunEvent_DelegationCancelled:
		for _, delegation := range attempt.Delegations {
			if delegation.ID == arm.DelegationCancelled.GetDelegationId() {
				delegation.Cancelled = now
			}
		}
	case *orchestratorv1.RunEvent_Published:
		if ref := arm.Published.GetRef(); ref.GetSeq() == t.ResultSeq {
			t.Version = ref.GetVersion()
		}
	default:
		if attempt == t.Attempt() {
			t.progress(event.Proto)
		}
	}
	if last := t.Attempt(); last != nil && !last.Ended.IsZero() {
		clear(t.ToolCalls)
	}
}

// end ends the task, and its last attempt and question with it, unless an earlier event has.
func (t *Task) end(now time.Time, state archon.TaskState, failure *archon.Error) {
	t.State, t.Ended, t.Failure = state, now, failure
	if attempt := t.Attempt(); attempt != nil {
		attempt.end(now, Outcome(strings.ToLower(string(state))), failure)
	}
	t.closeQuestion(now)
}

func (a *Attempt) end(now time.Time, outcome Outcome, failure *archon.Error) {
	if a.Ended.IsZero() {
		a.Ended, a.Outcome, a.Failure = now, outcome, failure
	}
}

func (t *Task) closeQuestion(now time.Time) {
	if question := t.Question(); question != nil {
		question.Ended = now
	}
}

func (t *Task) changeState(attempt *Attempt, changed *orchestratorv1.TaskStateChanged, now time.Time) {
	failure := failureOf(changed.GetFailure())
	if changed.GetStopping() {
		t.Stopping = failure
		if t.Question() != nil { // no one has to answer what is not needed any more
			t.closeQuestion(now)
			t.State = archon.StateWorking
		}
		return
	}
	t.State = archon.StateOf(changed.GetState())
	if failure != nil {
		t.LastFailure = failure
	}
	if t.State.Final() {
		t.end(now, t.State, failure)
	}
}

func (t *Task) endWithResult(event *archon.Event, result *orchestratorv1.ResultReceived) {
	failure := failureOf(result.GetFailure())
	t.State, t.LastFailure = archon.StateOf(result.GetState()), failure
	if t.State.Final() {
		t.ResultSeq, t.Answer = event.Seq, archon.TextOf(result.GetOutput())
		t.Reused = t.State == archon.StateCompleted && event.Attempt == 0 && result.Resolution == nil
		t.end(event.Time, t.State, failure)
	}
}

// waitAgain ends an attempt that was lost or rejected, or that failed for now.
func (t *Task) waitAgain(attempt *Attempt, outcome Outcome, failure *commonv1.Failure, now time.Time) {
	attempt.end(now, outcome, failureOf(failure))
	t.LastFailure = failureOf(failure)
	t.State = archon.StateSubmitted
	if t.Question() != nil {
		t.State = archon.StateInputRequired
	}
}

func (t *Task) ask(attempt *Attempt, question *Question, event *archon.Event) {
	t.closeQuestion(event.Time)
	question.TaskID, question.Role, question.Attempt, question.Asked = t.ID, t.Role, event.Attempt, event.Time
	t.Questions = append(t.Questions, question)
	t.State = archon.StateInputRequired
	if !question.Continues {
		attempt.end(event.Time, Asked, nil)
	}
}

func (t *Task) answer(attempt *Attempt, given *orchestratorv1.InputGiven, now time.Time) {
	for _, question := range t.Questions {
		if question.InputID != given.GetInputId() {
			continue
		}
		if question.Ended.IsZero() {
			question.Ended = now
		}
		question.Answer, question.Identity = archon.TextOf(given.GetParts()), given.GetIdentity()
		question.Decision = enumName(commonv1.Decision_name, "DECISION_", int32(given.GetDecision()))
	}
	if t.State == archon.StateInputRequired {
		t.State = archon.StateSubmitted
		if attempt == t.Attempt() && attempt.Ended.IsZero() {
			t.State = archon.StateWorking
		}
	}
}

// progress adds a transient event of the last attempt.
func (t *Task) progress(event *orchestratorv1.RunEvent) {
	switch arm := event.GetEvent().(type) {
	case *orchestratorv1.RunEvent_ThinkingDelta:
		t.Thinking = last(t.Thinking + arm.ThinkingDelta.GetText())
	case *orchestratorv1.RunEvent_TextDelta:
		t.Thinking = ""
		t.Written = arm.TextDelta.GetOffset() + int64(len(arm.TextDelta.GetText()))
		t.Text = last(t.Text + arm.TextDelta.GetText())
	case *orchestratorv1.RunEvent_ToolEvent:
		t.Thinking = ""
		delete(t.ToolCalls, arm.ToolEvent.GetCallId())
		if arm.ToolEvent.GetArgumentsJson() != "" || arm.ToolEvent.GetResultJson() == "" {
			t.ToolCalls[arm.ToolEvent.GetCallId()] = arm.ToolEvent.GetToolName()
		}
	}
}

// spend notes an attempt's usage; a result that a person has approved repeats it, one that replaces it has none.
func spend(attempt *Attempt, event *orchestratorv1.RunEvent) {
	var usage *commonv1.Usage
	switch arm := event.GetEvent().(type) {
	case *orchestratorv1.RunEvent_Result:
		usage = arm.Result.GetUsage()
	case *orchestratorv1.RunEvent_Retry:
		usage = arm.Retry.GetUsage()
	case *orchestratorv1.RunEvent_InputRequested:
		usage = arm.InputRequested.GetUsage()
	case *orchestratorv1.RunEvent_Discarded:
		usage = arm.Discarded.GetUsage()
	case *orchestratorv1.RunEvent_ApprovalRequested:
		usage = arm.ApprovalRequested.GetResult().GetUsage()
	}
	if spent := archon.UsageOf(usage); spent != (archon.Usage{}) {
		attempt.Usage = spent
	}
}

func last(text string) string {
	if len(text) <= textKept {
		return text
	}
	runes := []rune(text)
	return string(runes[max(0, len(runes)-textKept):])
}

func enumName(names map[int32]string, prefix string, number int32) string {
	if number == 0 {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(names[number], prefix))
}
