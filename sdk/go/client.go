package archon

import (
	"context"
	"errors"
	"io"
	"iter"
	mathrand "math/rand/v2"
	"strings"
	"time"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	orchestratorv1 "github.com/archon-mesh/archon/sdk/go/api/orchestrator/v1"
)

const (
	callTimeout   = 10 * time.Second
	planTimeout   = time.Minute
	editTimeout   = 15 * time.Second
	cancelTimeout = 2 * time.Second
	watchPatience = time.Minute // for which a watch reconnects in a row
	maxPage       = 1_000
)

// Client is a connection to an orchestrator: it submits, watches and controls runs. It is safe for concurrent use. Each call
// has a time limit of its own besides that of its context.
type Client struct {
	channel *Channel
	stub    orchestratorv1.OrchestratorServiceClient
}

// NewClient returns a client of the orchestrator at host:port, which connects at the first call. Close it.
func NewClient(target string, options ...ChannelOption) (*Client, error) {
	channel, err := Connect(target, PeerOrchestrator, options...)
	if err != nil {
		return nil, err
	}
	return &Client{channel, orchestratorv1.NewOrchestratorServiceClient(channel)}, nil
}

// Close closes the connection. Idempotent.
func (c *Client) Close() error { return c.channel.Close() }

// Submit submits a run, which is durable when this returns. It fails with MESSAGE_TOO_LARGE, before anything is sent, if the
// goal exceeds 4 MiB, and with EMPTY_GOAL, UNKNOWN_ROLE, UNKNOWN_CAPABILITY, REQUEST_ID_REUSED, RESOURCE_EXHAUSTED.
func (c *Client) Submit(ctx context.Context, submission Submission) (*RunHandle, error) {
	request, err := submission.request(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout+submission.Wait)
	defer cancel()
	response, err := c.stub.SubmitRun(ctx, request)
	if err != nil {
		return nil, err
	}
	return &RunHandle{c, RunOf(response.GetRun())}, nil
}

// Run submits a run, waits for its end and returns the text of its answer, or its failure. If the context ends before, the
// run is cancelled.
func (c *Client) Run(ctx context.Context, submission Submission) (string, error) {
	if submission.RequestID == "" {
		id, err := newRequestID()
		if err != nil {
			return "", err
		}
		submission.RequestID = id
	}
	handle, err := c.Submit(ctx, submission)
	if err != nil {
		if ctx.Err() != nil {
			c.withdraw(ctx, submission)
		}
		return "", err
	}
	run, err := handle.Wait(ctx)
	if err != nil {
		if ctx.Err() != nil {
			c.cancelQuietly(ctx, handle.ID())
		}
		return "", err
	}
	if err := run.Err(); err != nil {
		return "", err
	}
	return run.Output()
}

// withdraw cancels a run whose submit was given up: the same request finds it, or creates it anew.
func (c *Client) withdraw(ctx context.Context, submission Submission) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	submission.Wait = 0
	if handle, err := c.Submit(ctx, submission); err == nil {
		_, _ = handle.Cancel(ctx, "its caller was cancelled")
	}
}

func (c *Client) cancelQuietly(ctx context.Context, runID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	_, _ = c.Cancel(ctx, runID, "its caller was cancelled") // a failure is left to the run's own time limit
}

// Fork submits a new run with the settings of another one, which reuses the answers of the tasks that had completed in it, up
// to event afterSeq (0: all), and executes the others anew.
func (c *Client) Fork(ctx context.Context, runID string, fork Fork) (*RunHandle, error) {
	request := &orchestratorv1.ForkRunRequest{RequestId: fork.RequestID, RunId: runID, AfterSeq: fork.AfterSeq}
	var err error
	if request.RequestId == "" {
		if request.RequestId, err = newRequestID(); err != nil {
			return nil, err
		}
	}
	if fork.Goal != "" || len(fork.Parts) > 0 {
		if request.Goal, err = content(fork.Goal, fork.Parts, "the goal"); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := c.stub.ForkRun(ctx, request)
	if err != nil {
		return nil, err
	}
	return &RunHandle{c, RunOf(response.GetRun())}, nil
}

// Fork says what a fork reuses. Without a goal the new run has the forked run's; with another one nothing is reused unless
// AfterSeq is above 0.
type Fork struct {
	AfterSeq  int64
	Goal      string
	Parts     []Part
	RequestID string
}

// WatchOption changes a watch.
type WatchOption func(*orchestratorv1.WatchRunRequest)

// After starts a watch after an event.
func After(seq int64) WatchOption {
	return func(r *orchestratorv1.WatchRunRequest) { r.AfterSeq = seq }
}

// DurableOnly leaves out transient events, such as deltas.
func DurableOnly() WatchOption {
	return func(r *orchestratorv1.WatchRunRequest) { r.DurableOnly = true }
}

// Watch yields every durable event of a run once and in order, and transient events (Seq 0) as they come; it ends after the
// run's last event. If the orchestrator is unreachable it reconnects and resumes after the last event, for a minute in a row;
// and if the token of the stream has expired, with the one that the credentials have now.
func (c *Client) Watch(ctx context.Context, runID string, options ...WatchOption) iter.Seq2[*Event, error] {
	request := &orchestratorv1.WatchRunRequest{RunId: runID}
	for _, option := range options {
		option(request)
	}
	return func(yield func(*Event, error) bool) {
		heard, expired := time.Now(), false
		for {
			done, err := c.watchOnce(ctx, request, func(event *Event) bool { return yield(event, nil) }, func() {
				heard, expired = time.Now(), false
			})
			if done {
				return
			}
			failed := ToError(err, "")
			again := ctx.Err() == nil
			switch {
			case failed.Is(ReasonTokenExpired):
				again = again && !expired
				expired = true
			case failed.Is(ErrUnavailable), failed.Is(ErrAborted):
				again = again && time.Since(heard) <= watchPatience
			default:
				again = false
			}
			if !again {
				yield(nil, failed)
				return
			}
			pause := time.NewTimer(100*time.Millisecond + time.Duration(mathrand.Int64N(int64(300*time.Millisecond))))
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				yield(nil, ToError(ctx.Err(), ""))
				return
			}
		}
	}
}

// watchOnce returns true if the run has ended, or yield has returned false; else the error that broke the stream.
func (c *Client) watchOnce(
	ctx context.Context, request *orchestratorv1.WatchRunRequest, yield func(*Event) bool, alive func(),
) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.stub.WatchRun(ctx, request)
	if err != nil {
		return false, err
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		alive()
		for _, each := range message.GetEvents() {
			if seq := each.GetSeq(); seq > 0 {
				if seq <= request.GetAfterSeq() {
					continue
				}
				request.AfterSeq = seq
			}
			if !yield(EventOf(each)) {
				return true, nil
			}
		}
	}
}

// Wait waits until a run has ended, in whatever state.
func (c *Client) Wait(ctx context.Context, runID string) (*Run, error) {
	for _, err := range c.Watch(ctx, runID, DurableOnly()) {
		if err != nil {
			return nil, err
		}
	}
	return c.Get(ctx, runID)
}

// Get returns the current state of a run. It fails with UNKNOWN_RUN.
func (c *Client) Get(ctx context.Context, runID string) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return runOf(c.stub.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: runID}))
}

// responseWithRun is a response that has a run.
type responseWithRun interface{ GetRun() *orchestratorv1.Run }

func runOf[R responseWithRun](response R, err error) (*Run, error) {
	if err != nil {
		return nil, err
	}
	return RunOf(response.GetRun()), nil
}

// Cancel requests that a run be cancelled; it has ended once its state is final.
func (c *Client) Cancel(ctx context.Context, runID, reason string) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return runOf(c.stub.CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: runID, Reason: valid(reason)}))
}

// Pause pauses a run: no further tasks are dispatched until Resume, tasks in progress continue, and the run's clock stops.
func (c *Client) Pause(ctx context.Context, runID string) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return runOf(c.stub.PauseRun(ctx, &orchestratorv1.PauseRunRequest{RunId: runID}))
}

// Resume resumes a paused run.
func (c *Client) Resume(ctx context.Context, runID string) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return runOf(c.stub.ResumeRun(ctx, &orchestratorv1.ResumeRunRequest{RunId: runID}))
}

// Response answers a question of a run. An approval takes a Decision: approve or reject, with Text as its reason, or modify,
// with the replacement.
type Response struct {
	InputID   string
	Text      string
	Parts     []Part
	Decision  string
	RequestID string
}

// Respond answers a question of a run. Repeating the same answer is no error. It fails with FAILED_PRECONDITION if there is no
// such question, PERMISSION_DENIED if it has other approvers, INVALID_ARGUMENT if the answer does not match its schema.
func (c *Client) Respond(ctx context.Context, runID string, response Response) (*Run, error) {
	request, err := response.request(runID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return runOf(c.stub.Respond(ctx, request))
}

func (r Response) request(runID string) (*orchestratorv1.RespondRequest, error) {
	request := &orchestratorv1.RespondRequest{RunId: runID, InputId: r.InputID, RequestId: r.RequestID}
	if r.Decision != "" {
		number, ok := commonv1.Decision_value["DECISION_"+strings.ToUpper(r.Decision)]
		if !ok || number == 0 {
			return nil, NewError(ReasonInvalidArgument,
				"unknown decision "+quoted(r.Decision)+"; use approve, reject or modify", WithViolation("decision", "unknown"))
		}
		request.Decision = commonv1.Decision(number)
	}
	if r.Text == "" && len(r.Parts) == 0 && r.Decision != "" {
		return request, nil
	}
	var err error
	request.Parts, err = content(r.Text, r.Parts, "the answer")
	return request, err
}

// Plan returns the plan that a submission with the strategy plan would begin with. Nothing is stored or executed. It fails
// with PLAN_FAILED if the planner's reply is no plan.
func (c *Client) Plan(ctx context.Context, submission Submission) (*commonv1.Plan, error) {
	submission.Strategy = "plan"
	request, err := submission.request(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	response, err := c.stub.PlanRun(ctx, &orchestratorv1.PlanRunRequest{Submit: request})
	return response.GetPlan(), err
}

// EditPlan replaces the steps of a run's plan that have not begun by those of a plan, one JSON object. expectedSeq is the
// change_seq of the plan that was edited; it fails with ABORTED if the plan has changed since.
func (c *Client) EditPlan(ctx context.Context, runID, planJSON string, expectedSeq int64) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, editTimeout)
	defer cancel()
	return runOf(c.stub.EditPlan(ctx, &orchestratorv1.EditPlanRequest{
		RunId: runID, PlanJson: planJSON, ExpectedSeq: expectedSeq,
	}))
}

// Rate rates a run that has ended, from 1 (bad) to 5 (good) stars, in place of the caller's earlier rating.
func (c *Client) Rate(ctx context.Context, runID string, stars int, comment string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.stub.RateRun(ctx, &orchestratorv1.RateRunRequest{RunId: runID, Stars: int32(stars), Comment: valid(comment)})
	return err
}

// Stub returns the stub of the orchestrator, for calls that the client has no method for.
func (c *Client) Stub() orchestratorv1.OrchestratorServiceClient { return c.stub }
