package agent

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

// Task is one attempt at one task, as its handler sees it: what was assigned, and the handler's way to the orchestrator. It
// is safe for concurrent use.
type Task struct {
	attempt  *attempt
	ref      *commonv1.TaskRef // without the epoch, which the server changes
	assigned *agentv1.AssignTask
	remember bool
	isOver   atomic.Bool

	// The server's lock guards these.
	context     []*commonv1.ContextItem
	changes     chan struct{} // closed at the next change of the context; nil if nobody waits
	deadline    time.Time     // zero: no limit
	stopped     bool          // the clock stands still
	stoppedWith time.Duration
	usage       archon.Usage
	budget      attemptBudget
	written     int64 // bytes of text so far
	delegated   int
	asked       int
	inbox       inbox
}

func newTask(a *attempt, assigned *agentv1.AssignTask) *Task {
	ref := a.channel.Ref
	t := &Task{
		attempt: a, assigned: assigned, context: assigned.GetContext(), budget: newAttemptBudget(assigned),
		ref:      &commonv1.TaskRef{TaskId: ref.GetTaskId(), RunId: ref.GetRunId(), Attempt: ref.GetAttempt()},
		remember: a.server.registration.GetStateful() && assigned.GetConversationId() != "",
	}
	if assigned.Remaining != nil {
		t.deadline = time.Now().Add(assigned.GetRemaining().AsDuration())
	}
	return t
}

func (t *Task) lock() func() {
	t.attempt.server.mu.Lock()
	return t.attempt.server.mu.Unlock
}

func (t *Task) remaining() (time.Duration, bool) {
	if t.deadline.IsZero() || t.stopped {
		return 0, false
	}
	return max(0, time.Until(t.deadline)), true
}

func (t *Task) stopClock() {
	if left, ok := t.remaining(); ok {
		t.stopped, t.stoppedWith = true, left
	}
}

func (t *Task) startClock() {
	if t.stopped {
		t.stopped, t.deadline = false, time.Now().Add(t.stoppedWith)
	}
}

// update adds newer answers to the context: each replaces what the attempt has of that role and step.
func (t *Task) update(items []*commonv1.ContextItem) {
	updated := slices.Clone(t.context)
	for _, item := range items {
		place := slices.IndexFunc(updated, func(old *commonv1.ContextItem) bool {
			return old.GetRef().GetRole() == item.GetRef().GetRole() && old.GetStepId() == item.GetStepId()
		})
		if place < 0 {
			updated = append(updated, item)
		} else {
			updated[place] = item
		}
	}
	t.context = updated
	if t.changes != nil {
		close(t.changes)
		t.changes = nil
	}
}

// Proto returns the assignment as a message, without the answers that came later. It must not be changed.
func (t *Task) Proto() *agentv1.AssignTask { return t.assigned }

// ID returns the task's id, the same for all attempts.
func (t *Task) ID() string { return t.ref.GetTaskId() }

// RunID returns the id of the run that the task belongs to.
func (t *Task) RunID() string { return t.ref.GetRunId() }

// Attempt returns the number of this attempt: from 1, one more with each dispatch.
func (t *Task) Attempt() int { return int(t.ref.GetAttempt()) }

// Role returns the role that the agent serves.
func (t *Task) Role() string { return t.attempt.server.role }

// Text returns the text of the input.
func (t *Task) Text() string { return archon.TextOf(t.assigned.GetInput()) }

// Parts returns all parts of the input.
func (t *Task) Parts() []archon.Part { return archon.PartsOf(t.assigned.GetInput()) }

// Context returns the answers of the roles that this one depends on, in dependency order: of each role the newest one that
// has arrived. Roles that had none when the task was dispatched come last.
func (t *Task) Context() []ContextItem {
	unlock := t.lock()
	items := t.context
	unlock()
	answers := make([]ContextItem, len(items))
	for i, item := range items {
		ref := archon.MemoryRefOf(item.GetRef())
		answers[i] = ContextItem{
			Role: ref.Role, Text: archon.TextOf(item.GetParts()), Parts: archon.PartsOf(item.GetParts()),
			Policy: archon.PolicyOf(item.GetPolicy()), StepID: item.GetStepId(), Metadata: item.GetMetadata(), Ref: ref,
		}
	}
	return answers
}

// ContextChanged returns a channel that is closed at the next change of Context: a role that this one depends on, and that
// works at the same time, has a newer answer.
func (t *Task) ContextChanged() <-chan struct{} {
	defer t.lock()()
	if t.changes == nil {
		t.changes = make(chan struct{})
	}
	return t.changes
}

// Awareness returns a text about the other roles, for a coordinator; empty for all other roles.
func (t *Task) Awareness() string { return t.assigned.GetAwareness() }

// DelegationTargets returns the roles that a coordinator may delegate to, in dependency order; none for all other roles.
func (t *Task) DelegationTargets() []DelegationTarget {
	targets := make([]DelegationTarget, len(t.assigned.GetDelegationTargets()))
	for i, target := range t.assigned.GetDelegationTargets() {
		targets[i] = DelegationTarget{target.GetRole(), target.GetDescription()}
	}
	return targets
}

// DelegationChain returns the roles that wait for this task, outermost first.
func (t *Task) DelegationChain() []string { return slices.Clone(t.assigned.GetDelegationChain()) }

// Budget returns the first slice of the run's budget that the attempt may spend; nil if the run has no budget.
func (t *Task) Budget() *archon.Budget {
	if t.assigned.Budget == nil {
		return nil
	}
	budget := archon.BudgetOf(t.assigned.GetBudget())
	return &budget
}

// ExpectedOutput returns a description of a good answer; may be empty.
func (t *Task) ExpectedOutput() string { return t.assigned.GetExpectedOutput() }

// OutputSchemaJSON returns the JSON Schema of the answer, which is then one JSON part; empty if the step has none.
func (t *Task) OutputSchemaJSON() string { return t.assigned.GetOutputSchemaJson() }

// Refusal returns why the result of the attempt before was refused; empty if it was not.
func (t *Task) Refusal() string { return t.assigned.GetRefusal() }

// StepID returns the step of the plan that the task executes; empty if it executes none.
func (t *Task) StepID() string { return t.assigned.GetStepId() }

// AllowedTools returns the only tools that the task may use, by name; none if it may use any.
func (t *Task) AllowedTools() []string { return slices.Clone(t.assigned.GetAllowedTools()) }

// Exact reports whether the allowed tool must be called with ToolArgsJSON, or the task fails.
func (t *Task) Exact() bool { return t.assigned.GetExact() }

// ToolArgsJSON returns the arguments of the step's tool as one JSON object; empty if there are none.
func (t *Task) ToolArgsJSON() string { return t.assigned.GetToolArgsJson() }

// PlanRequest returns the request to the planner of a run; nil for any other task.
func (t *Task) PlanRequest() *agentv1.PlanRequest { return t.assigned.PlanRequest }

// BidRequest returns the step that a bid is asked for, which is not executed yet; nil for any other task.
func (t *Task) BidRequest() *agentv1.BidRequest { return t.assigned.BidRequest }

// Traceparent returns the place of the task in a trace: the values of the headers traceparent and tracestate. The context of
// the handler has the span of the attempt, whose parent this is.
func (t *Task) Traceparent() (traceparent, tracestate string) {
	return t.assigned.GetTrace().GetTraceparent(), t.assigned.GetTrace().GetTracestate()
}

// Metadata returns the metadata that the run was submitted with.
func (t *Task) Metadata() map[string]string {
	metadata := make(map[string]string, len(t.assigned.GetMetadata()))
	maps.Copy(metadata, t.assigned.GetMetadata())
	return metadata
}

// IdempotencyKey returns the same key for all attempts, for calls to systems that deduplicate.
func (t *Task) IdempotencyKey() string { return t.assigned.GetIdempotencyKey() }

// ConversationID returns the id of the role's conversation in the session; empty if the task belongs to no session.
func (t *Task) ConversationID() string { return t.assigned.GetConversationId() }

// ConversationVersion returns the version of History: how many turns the conversation has had.
func (t *Task) ConversationVersion() int64 { return t.assigned.GetConversationVersion() }

// SessionID returns the id of the run's session; empty if there is none.
func (t *Task) SessionID() string {
	id := t.assigned.GetConversationId()
	if at := strings.LastIndex(id, "/"); at > 0 {
		return id[:at]
	}
	return t.assigned.GetMetadata()[sessionKey]
}

// History returns the session history of a stateful role, oldest message first.
func (t *Task) History() []HistoryMessage {
	history := make([]HistoryMessage, len(t.assigned.GetHistory()))
	for i, message := range t.assigned.GetHistory() {
		history[i] = historyMessage(message)
	}
	return history
}

// Checkpoint returns the newest checkpoint of earlier attempts; empty if there is none.
func (t *Task) Checkpoint() []byte { return t.assigned.GetResume().GetCheckpoint() }

// Answers returns the answers of people to questions of this task, by the ids of the questions.
func (t *Task) Answers() map[string]GivenAnswer {
	answers := map[string]GivenAnswer{}
	for _, answer := range t.assigned.GetResume().GetAnswers() {
		answers[answer.GetInputId()] = givenAnswer(answer)
	}
	return answers
}

// InputText returns the text of the answers of people, in the order of their arrival.
func (t *Task) InputText() string { return archon.TextOf(t.assigned.GetResume().GetInputs()) }

// Usage returns the usage so far; RecordModelCall and AddUsage add to it.
func (t *Task) Usage() archon.Usage {
	defer t.lock()()
	return t.usage
}

// PublishPolicies returns the policies wider than FinalResponseOnly of edges from this role to roles of the run: those for
// which Answer.Items has readers.
func (t *Task) PublishPolicies() []archon.Policy {
	policies := make([]archon.Policy, len(t.assigned.GetPublishPolicies()))
	for i, policy := range t.assigned.GetPublishPolicies() {
		policies[i] = archon.PolicyOf(policy)
	}
	return policies
}

// Remaining returns the time left for this task, and whether there is a limit; there is none while it waits for a person.
func (t *Task) Remaining() (time.Duration, bool) {
	defer t.lock()()
	return t.remaining()
}

// IsOver reports whether no attempt needs the result any more: the task was cancelled, or its time is over. A handler whose
// context is cancelled while this is false was stopped because another attempt goes on with the task, for example when its
// process drains: work that it has begun in other systems must go on.
func (t *Task) IsOver() bool { return t.isOver.Load() }
