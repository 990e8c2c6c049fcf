package agent

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

const (
	maxDeltaBytes = 16 << 10
	maxShownBytes = 64 << 10 // a larger tool call or result is not shown while it happens; its record has it
	maxInputID    = 256
)

// Save saves bytes from which a later attempt can resume, as its Checkpoint; the newest one counts. It does nothing if the
// orchestrator does not support checkpoints. It fails with FRAME_TOO_LARGE above 1 MiB, or above the orchestrator's limit.
func (t *Task) Save(checkpoint []byte) error {
	if err := checkCheckpoint(checkpoint); err != nil {
		return err
	}
	content, err := frames.Content(armCheckpoint, &agentv1.Checkpoint{Data: checkpoint})
	if err != nil {
		return err
	}
	defer t.lock()()
	if t.attempt.agreed("checkpoint") {
		if err := t.attempt.channel.CheckSize(content, t.attempt.limit); err != nil {
			return err
		}
	}
	t.attempt.save(content)
	return nil
}

// Publish publishes an item before the answer, which replaces it: roles that depend on this one and work at the same time
// receive it at once. It fails with INVALID_ARGUMENT for an item without text, FRAME_TOO_LARGE, NOT_SERVED if the
// orchestrator does not support it, and RESOURCE_EXHAUSTED if 8 MiB wait to be stored.
func (t *Task) Publish(item Item) error {
	parts := item.parts()
	if strings.TrimSpace(archon.TextOf(parts)) == "" {
		return archon.NewError(archon.ReasonInvalidArgument, "an item to publish needs a text")
	}
	content, err := frames.Content(armPublish,
		&agentv1.Publish{Parts: parts, Policy: item.Policy.Proto(), Metadata: cleanMap(item.Metadata)})
	if err != nil {
		return err
	}
	defer t.lock()()
	if err := t.attempt.checkItem(content); err != nil {
		return err
	}
	if t.attempt.working() {
		t.attempt.flush()
		t.attempt.send(content, true)
	}
	return nil
}

// Write streams more of the answer's text to watchers. It may be dropped under load; the answer itself is not.
func (t *Task) Write(text string) {
	text = cleanText(text)
	defer t.lock()()
	for _, delta := range pieces(text) {
		t.attempt.progress(&agentv1.Progress{Offset: t.written, Content: &agentv1.Progress_Text{Text: delta}})
		t.written += int64(len(delta))
	}
}

// Think streams more of a model's thinking to watchers. It is not part of the answer, and is not stored.
func (t *Task) Think(text string) {
	defer t.lock()()
	for _, delta := range pieces(cleanText(text)) {
		t.attempt.progress(&agentv1.Progress{Content: &agentv1.Progress_Thinking{Thinking: delta}})
	}
}

// ReportEvent shows watchers an event of the application: one JSON value.
func (t *Task) ReportEvent(value any) error {
	text, err := encodeJSON(value)
	if err != nil {
		return archon.NewError(archon.ReasonInvalidArgument, "the event is not JSON: "+err.Error())
	}
	t.show(&agentv1.Progress{Content: &agentv1.Progress_EventJson{EventJson: text}})
	return nil
}

// ReportToolCall shows watchers that a tool is called.
func (t *Task) ReportToolCall(callID, tool, argumentsJSON string) {
	t.show(&agentv1.Progress{Content: &agentv1.Progress_ToolEvent{ToolEvent: &agentv1.ToolEvent{
		CallId: cleanText(callID), ToolName: cleanText(tool), ArgumentsJson: cleanText(argumentsJSON),
	}}})
}

// ReportToolResult shows watchers the result of a tool call.
func (t *Task) ReportToolResult(callID, tool, resultJSON string, failed bool) {
	t.show(&agentv1.Progress{Content: &agentv1.Progress_ToolEvent{ToolEvent: &agentv1.ToolEvent{
		CallId: cleanText(callID), ToolName: cleanText(tool), ResultJson: cleanText(resultJSON), Failed: failed,
	}}})
}

func (t *Task) show(progress *agentv1.Progress) {
	if proto.Size(progress) <= maxShownBytes {
		defer t.lock()()
		t.attempt.progress(progress)
	}
}

// RecordModelCall records a model call exactly as it was made, and counts its usage. With ARCHON_RECORDS=redacted only sizes
// and hashes of the contents are recorded, with off only the usage is counted. The call releases the oldest reservation.
func (t *Task) RecordModelCall(call ModelCall) error {
	usage := call.Usage
	recorded, ok, err := newRecord(
		agentv1.RecordKind_RECORD_KIND_MODEL, call.Model, call.Request, call.Response, call.Started, call.Duration, &usage)
	if err != nil {
		return err
	}
	usage.ModelCalls, usage.ToolCalls = 1, 0
	defer t.lock()()
	t.usage = t.usage.Add(usage)
	if !call.Retried {
		t.budget.settle()
	}
	t.attempt.sendUsage()
	if ok {
		t.attempt.record(recorded)
	}
	return nil
}

// RecordToolCall records a tool call.
func (t *Task) RecordToolCall(call ToolCall) error {
	recorded, ok, err := newRecord(
		agentv1.RecordKind_RECORD_KIND_TOOL, call.Tool, call.Arguments, call.Result, call.Started, call.Duration, nil)
	if err != nil || !ok {
		return err
	}
	defer t.lock()()
	t.attempt.record(recorded)
	return nil
}

// AddUsage counts usage without recording a call: of work that another system did for this task.
func (t *Task) AddUsage(usage archon.Usage) {
	defer t.lock()()
	t.usage = t.usage.Add(usage)
	t.attempt.sendUsage()
}

// Delegate delegates a part of this task to a role, or to any role with a capability, and returns its answer. Concurrent
// delegations run in parallel; cancelling the context cancels the delegated work.
//
// It fails with the error that the other role failed with, or with UNKNOWN_ROLE, UNKNOWN_CAPABILITY, DELEGATION_LOOP,
// DELEGATION_TOO_DEEP, DELEGATION_TIMEOUT, TOO_MANY_DELEGATIONS, BUDGET_EXHAUSTED, FRAME_TOO_LARGE, and NOT_SERVED if the
// caller of this task does not support delegations.
func (t *Task) Delegate(ctx context.Context, delegation Delegation) (Delegated, error) {
	if (delegation.Role == "") == (delegation.Capability == "") {
		return Delegated{}, archon.NewError(archon.ReasonInvalidArgument, "a delegation names either a role or a capability")
	}
	if err := checkCheckpoint(delegation.Checkpoint); err != nil {
		return Delegated{}, err
	}
	request := &agentv1.Delegate{
		Input: archon.PartMessages(delegation.Parts), MemoKey: cleanText(delegation.MemoKey), Checkpoint: delegation.Checkpoint,
	}
	if delegation.Text != "" || len(delegation.Parts) == 0 {
		request.Input = append(request.Input, archon.TextPart(delegation.Text).Proto())
	}
	if delegation.Role != "" {
		request.Target = &agentv1.Delegate_Role{Role: cleanText(delegation.Role)}
	} else {
		request.Target = &agentv1.Delegate_Capability{Capability: cleanText(delegation.Capability)}
	}
	if delegation.Timeout != 0 {
		request.Timeout = durationpb.New(max(0, delegation.Timeout))
	}
	if delegation.Budget != nil {
		request.Budget = delegation.Budget.Proto()
	}
	if traceparent, tracestate := archon.TraceOf(ctx); traceparent != "" {
		request.Trace = &commonv1.TraceContext{Traceparent: traceparent, Tracestate: tracestate}
	} else {
		request.Trace = t.assigned.GetTrace()
	}
	unlock := t.lock()
	t.delegated++
	request.DelegationId = "d" + strconv.Itoa(t.delegated)
	unlock()
	frame, err := t.attempt.calls.call(ctx, "delegate", armDelegate, request.GetDelegationId(), request, true)
	if err != nil {
		return Delegated{}, err
	}
	result := frame.GetDelegateResult().GetResult()
	if result.GetState() != commonv1.TaskState_TASK_STATE_COMPLETED {
		return Delegated{}, archon.FromFailure(result.GetFailure())
	}
	return Delegated{
		Text: archon.TextOf(result.GetOutput()), Parts: archon.PartsOf(result.GetOutput()),
		Usage: archon.UsageOf(result.GetUsage()), Memoized: frame.GetDelegateResult().GetMemoized(),
		Metadata: result.GetMetadata(),
	}, nil
}

// Ask asks a person and waits for the answer, as long as it takes, while the attempt keeps its slot and its state: the time
// of the run and of this task stands still. For an answer that may take hours return Ask(question), which frees the slot.
//
// The answer belongs to the task: a later attempt that asks with the same InputID gets it at once. By default that is the
// number of the question in the attempt.
func (t *Task) Ask(ctx context.Context, question Question) (GivenAnswer, error) {
	if n := utf8.RuneCountInString(question.InputID); n > maxInputID {
		return GivenAnswer{}, archon.NewError(archon.ReasonInvalidArgument,
			fmt.Sprintf("the input_id of a question has %d characters, at most %d", n, maxInputID))
	}
	unlock := t.lock()
	id := question.InputID
	if id == "" {
		t.asked++
		id = "a" + strconv.Itoa(t.asked)
	}
	calls := &t.attempt.calls
	if calls.asking == nil {
		calls.asking = make(chan struct{}, 1)
	}
	asking := calls.asking
	unlock()
	if known, ok := t.Answers()[id]; ok {
		return known, nil
	}
	if err := enter(ctx, asking); err != nil { // one question after another
		return GivenAnswer{}, err
	}
	defer func() { <-asking }()
	frame, err := calls.call(ctx, "input", armAsk, id, question.proto(id), true)
	if err != nil {
		return GivenAnswer{}, err
	}
	return givenAnswer(frame.GetInput()), nil
}

// AskSecret asks a person for a secret, such as a credential, and returns it. The answer is encrypted for this attempt: the
// journal, records and watchers of the run do not have it. A later attempt asks again. It fails with the errors of Ask, and
// INVALID_ARGUMENT if the answer was not encrypted for this question.
func (t *Task) AskSecret(ctx context.Context, text string) (string, error) {
	secret, err := archon.NewSecretQuestion()
	if err != nil {
		return "", err
	}
	unlock := t.lock()
	t.asked++
	id := fmt.Sprintf("secret-%d-%d", t.Attempt(), t.asked)
	unlock()
	given, err := t.Ask(ctx, Question{Text: text, SchemaJSON: secret.SchemaJSON(), InputID: id})
	if err != nil {
		return "", err
	}
	return secret.Open(given.Text)
}

// Reservation is a part of the run's budget. ModelCalls 0 means 1.
type Reservation struct {
	Tokens       int64
	CostMicroUSD int64
	ModelCalls   int64
}

// Reserve reserves a part of the run's budget for this attempt, beyond its usage so far; call it before a model call. It
// returns at once if the run has no budget, and fails with BUDGET_EXHAUSTED if less is left.
func (t *Task) Reserve(ctx context.Context, amount Reservation) error {
	if amount.Tokens < 0 || amount.CostMicroUSD < 0 || amount.ModelCalls < 0 {
		return archon.NewError(archon.ReasonInvalidArgument, "an amount to reserve must not be negative")
	}
	if amount.ModelCalls == 0 {
		amount.ModelCalls = 1
	}
	wanted := amounts{amount.Tokens, amount.CostMicroUSD, amount.ModelCalls}
	for {
		unlock := t.lock()
		missing := t.budget.missing(t.usage, wanted)
		if missing == nil {
			t.budget.reserve(wanted)
			unlock()
			return nil
		}
		id := t.attempt.calls.nextRequest()
		unlock()
		frame, err := t.attempt.calls.call(
			ctx, "budget", armBudgetRequest, id, &agentv1.BudgetRequest{Budget: missing, RequestId: id}, false)
		if err != nil {
			return err
		}
		grant := frame.GetBudgetGrant()
		if grant.Failure != nil {
			return archon.FromFailure(grant.GetFailure())
		}
		if grant.Budget == nil {
			return archon.NewError(archon.ReasonBudgetExhausted, fmt.Sprintf(
				"insufficient budget: %d tokens, %d micro-USD, %d calls needed", wanted[0], wanted[1], wanted[2]),
				archon.WithMetadata("role", t.Role()))
		}
		unlock = t.lock()
		t.budget.add(grant.GetBudget())
		unlock()
	}
}

// Settle releases the oldest reservation, for a model call that was not made after all.
func (t *Task) Settle() {
	defer t.lock()()
	t.budget.settle()
}

// pieces cuts a text into pieces of at most 16 KiB, never within a character.
func pieces(text string) []string {
	var cut []string
	for len(text) > maxDeltaBytes {
		end := maxDeltaBytes
		for !utf8.RuneStart(text[end]) {
			end--
		}
		cut, text = append(cut, text[:end]), text[end:]
	}
	if text != "" {
		cut = append(cut, text)
	}
	return cut
}
