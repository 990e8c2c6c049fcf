package archon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	orchestratorv1 "github.com/archon-mesh/archon/sdk/go/api/orchestrator/v1"
)

// maxContentBytes is the most bytes of a goal or an answer: 4 MiB, less the room for all other fields.
const maxContentBytes = 4<<20 - 4096

// Submission is a run to submit. Parts precede Goal.
//
// Strategy is pipeline, agent or plan; empty: a single role is run as an agent, none or several as a pipeline. With plan the
// role Planner (empty: planner) makes a plan, whose steps go to Roles, or to all other roles with an instance; with PlanJSON
// the run begins with that plan. Versions requires versions of the roles' instances (1.2 or 1.*); with PinVersions all tasks
// of a role go to the version of its newest instance. Timeout is the run's time (0: 1 h); Wait is how long Submit waits for
// the run's end. An empty RequestID is replaced by a new one: two calls submit two runs, while retries of one call submit one.
type Submission struct {
	Goal           string
	Parts          []Part
	Roles          []string
	Capabilities   []string
	Versions       map[string]string
	PinVersions    bool
	Strategy       string
	Planner        string
	CheckAlignment bool
	PlanJSON       string
	Budget         *Budget
	SessionID      string
	RequestID      string
	Timeout        time.Duration
	Wait           time.Duration
	Metadata       map[string]string
}

// request returns the message of a submission. The run continues the trace of the context.
func (s Submission) request(ctx context.Context) (*orchestratorv1.SubmitRunRequest, error) {
	goal, err := content(s.Goal, s.Parts, "the goal")
	if err != nil {
		return nil, err
	}
	request := &orchestratorv1.SubmitRunRequest{
		RequestId: s.RequestID, Goal: goal, Roles: s.Roles, Capabilities: s.Capabilities, Versions: s.Versions,
		PinVersions: s.PinVersions, Planner: s.Planner, CheckAlignment: s.CheckAlignment, PlanJson: s.PlanJSON,
		SessionId: s.SessionID, Metadata: s.Metadata,
	}
	if s.Strategy != "" {
		number, ok := orchestratorv1.Strategy_value["STRATEGY_"+strings.ToUpper(s.Strategy)]
		if !ok || number == 0 {
			return nil, NewError(ReasonInvalidArgument, "unknown strategy "+quoted(s.Strategy)+"; use one of "+
				strings.Join(strategies(), ", "), WithViolation("strategy", "unknown"))
		}
		request.Strategy = orchestratorv1.Strategy(number)
	}
	if request.RequestId == "" {
		if request.RequestId, err = newRequestID(); err != nil {
			return nil, err
		}
	}
	if s.Budget != nil {
		request.Budget = s.Budget.Proto()
	}
	if s.Timeout != 0 {
		request.Timeout = durationpb.New(s.Timeout)
	}
	if s.Wait > 0 {
		request.Wait = durationpb.New(s.Wait)
	}
	if traceparent, tracestate := TraceOf(ctx); traceparent != "" {
		// In the request, because a Converse stream carries the requests of many callers.
		request.Trace = &commonv1.TraceContext{Traceparent: traceparent, Tracestate: tracestate}
	}
	return request, nil
}

func strategies() []string {
	var names []string
	for name, number := range orchestratorv1.Strategy_value {
		if number != 0 {
			names = append(names, strings.ToLower(strings.TrimPrefix(name, "STRATEGY_")))
		}
	}
	sort.Strings(names)
	return names
}

func content(text string, parts []Part, what string) ([]*commonv1.Part, error) {
	messages := PartMessages(parts)
	if text != "" || len(parts) == 0 {
		messages = append(messages, TextPart(text).Proto())
	}
	size := 0
	for _, message := range messages {
		size += proto.Size(message)
	}
	if size > maxContentBytes {
		return nil, NewError(ReasonMessageTooLarge, what+" has "+strconv.Itoa(size)+" bytes, more than the "+
			strconv.Itoa(maxContentBytes)+" that a message takes; pass large content by URL",
			WithMetadata("size", strconv.Itoa(size)))
	}
	return messages, nil
}

func newRequestID() (string, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", ToError(err, "")
	}
	return hex.EncodeToString(id), nil
}

// Run is the state of a run. Proto has all of it.
type Run struct {
	ID        string
	State     TaskState
	SessionID string
	Answers   []RunAnswer
	Failure   *Error // nil unless the run has failed
	Usage     Usage
	Questions []RunQuestion // open ones, oldest first
	Paused    bool
	Truncated bool // content was left out, because the run is too large for one response: watch it
	LastSeq   int64
	Metadata  map[string]string
	Proto     *orchestratorv1.Run
}

// RunAnswer is a final answer of a run: of a role, or of a step of its plan.
type RunAnswer struct {
	Role   string
	Text   string
	Parts  []Part
	TaskID string
	StepID string
}

// RunQuestion is an open question of a run to a person; Client.Respond answers it by InputID.
type RunQuestion struct {
	RunID      string
	InputID    string
	TaskID     string
	Role       string
	Text       string
	SchemaJSON string
	IsApproval bool
	Approvers  []string
	Proto      *orchestratorv1.Question
}

// RunOf returns the run that a message has.
func RunOf(message *orchestratorv1.Run) *Run {
	run := &Run{
		ID: message.GetRunId(), State: StateOf(message.GetState()), SessionID: message.GetSessionId(),
		Usage: UsageOf(message.GetUsage()), Paused: message.GetPaused(), Truncated: message.GetTruncated(),
		LastSeq: message.GetLastSeq(), Metadata: maps.Clone(message.GetMetadata()), Proto: message,
	}
	if message.Failure != nil {
		run.Failure = FromFailure(message.GetFailure())
	}
	for _, answer := range message.GetAnswers() {
		run.Answers = append(run.Answers, RunAnswer{
			answer.GetRole(), TextOf(answer.GetParts()), PartsOf(answer.GetParts()), answer.GetTaskId(), answer.GetStepId(),
		})
	}
	for _, question := range message.GetQuestions() {
		run.Questions = append(run.Questions, questionOf(question))
	}
	return run
}

func questionOf(question *orchestratorv1.Question) RunQuestion {
	return RunQuestion{
		question.GetRunId(), question.GetInputId(), question.GetTaskId(), question.GetRole(), TextOf(question.GetPrompt()),
		question.GetSchemaJson(), question.GetKind() == commonv1.QuestionKind_QUESTION_KIND_APPROVAL,
		slices.Clone(question.GetApprovers()), question,
	}
}

// Output returns the text of the final answers; if there are several, each below the name of its role. It fails with
// MESSAGE_TOO_LARGE if they are missing because the run was too large for the response.
func (r *Run) Output() (string, error) {
	if r.Truncated && len(r.Answers) == 0 {
		return "", NewError(ReasonMessageTooLarge, "the answers of run "+r.ID+" are too large for one response: watch it to "+
			"get each by itself", WithCode(codes.ResourceExhausted), WithMetadata("run_id", r.ID))
	}
	if len(r.Answers) == 1 {
		return r.Answers[0].Text, nil
	}
	texts := make([]string, len(r.Answers))
	for i, answer := range r.Answers {
		author := answer.Role
		if answer.StepID != "" {
			author += " (" + answer.StepID + ")"
		}
		texts[i] = author + ":\n" + answer.Text
	}
	return strings.Join(texts, "\n\n"), nil
}

// Err returns nil if the run has completed, its failure if it has ended otherwise, and FAILED_PRECONDITION if it goes on.
func (r *Run) Err() error {
	switch {
	case r.State == StateCompleted:
		return nil
	case r.Failure != nil:
		return r.Failure
	case r.State == StateCanceled:
		return NewError(ReasonCancelled, "run "+r.ID+" was cancelled")
	}
	return NewError(ReasonFailedPrecondition, "run "+r.ID+" is "+strings.ToLower(string(r.State)))
}

// Event is an event of a run. Kind is its arm in the contract, such as dispatched, result or text_delta, empty if this
// version does not know it; Seq is its number in the run, contiguous from 1, and 0 for a transient event, such as a delta.
type Event struct {
	RunID   string
	Seq     int64
	Kind    string
	Time    time.Time
	TaskID  string
	Attempt int
	Proto   *orchestratorv1.RunEvent
}

var eventArms = (*orchestratorv1.RunEvent)(nil).ProtoReflect().Descriptor().Oneofs().ByName("event")

// EventOf returns the event that a message has.
func EventOf(message *orchestratorv1.RunEvent) *Event {
	kind := ""
	if arm := message.ProtoReflect().WhichOneof(eventArms); arm != nil {
		kind = string(arm.Name())
	}
	return &Event{
		message.GetRunId(), message.GetSeq(), kind, message.GetTime().AsTime(), message.GetTask().GetTaskId(),
		int(message.GetTask().GetAttempt()), message,
	}
}
