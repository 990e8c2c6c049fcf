package archon

import (
	"context"
	"errors"
	"io"
	"iter"
	"strconv"
	"sync"
	"time"

	orchestratorv1 "github.com/archon-mesh/archon/sdk/go/api/orchestrator/v1"
)

const (
	commandTimeout = 30 * time.Second
	maxEvents      = 10_000 // that wait for their reader
)

// Conversation is many runs on one stream: commands one way, the events of all runs the other. Send commands while another
// goroutine reads Events. It does not reconnect: if it breaks, Client.Watch resumes each run after its last event. Close it.
type Conversation struct {
	stream orchestratorv1.OrchestratorService_ConverseClient
	cancel context.CancelFunc
	ended  chan struct{}
	events chan *Event

	sending sync.Mutex

	mu      sync.Mutex
	answers map[string]chan *orchestratorv1.ConverseReply
	number  int
	err     *Error
}

// Converse opens a stream. It ends with the context.
func (c *Client) Converse(ctx context.Context) (*Conversation, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.stub.Converse(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	conversation := &Conversation{
		stream: stream, cancel: cancel, ended: make(chan struct{}), events: make(chan *Event, maxEvents),
		answers: map[string]chan *orchestratorv1.ConverseReply{},
	}
	go conversation.read(ctx)
	return conversation, nil
}

// Close ends the stream at once. Idempotent.
func (c *Conversation) Close() {
	c.cancel()
	<-c.ended
}

// Done ends the commands: the stream ends after the last event of the watched runs.
func (c *Conversation) Done() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.stream.CloseSend()
}

// Submit submits a run and watches it.
func (c *Conversation) Submit(ctx context.Context, submission Submission) (*Run, error) {
	request, err := submission.request(ctx)
	if err != nil {
		return nil, err
	}
	return c.command(ctx, &orchestratorv1.ConverseRequest{Command: &orchestratorv1.ConverseRequest_Submit{Submit: request}})
}

// Watch watches an existing run from an event on.
func (c *Conversation) Watch(ctx context.Context, runID string, afterSeq int64) (*Run, error) {
	return c.command(ctx, &orchestratorv1.ConverseRequest{Command: &orchestratorv1.ConverseRequest_Watch{
		Watch: &orchestratorv1.WatchRunRequest{RunId: runID, AfterSeq: afterSeq},
	}})
}

// Cancel requests that a run be cancelled.
func (c *Conversation) Cancel(ctx context.Context, runID, reason string) (*Run, error) {
	return c.command(ctx, &orchestratorv1.ConverseRequest{Command: &orchestratorv1.ConverseRequest_Cancel{
		Cancel: &orchestratorv1.CancelRunRequest{RunId: runID, Reason: valid(reason)},
	}})
}

// Respond answers a question of a run.
func (c *Conversation) Respond(ctx context.Context, runID string, response Response) (*Run, error) {
	request, err := response.request(runID)
	if err != nil {
		return nil, err
	}
	return c.command(ctx, &orchestratorv1.ConverseRequest{Command: &orchestratorv1.ConverseRequest_Respond{Respond: request}})
}

// Events yields the events of all watched runs, in order per run, until the stream has ended.
func (c *Conversation) Events() iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for event := range c.events {
			if !yield(event, nil) {
				return
			}
		}
		c.mu.Lock()
		err := c.err
		c.mu.Unlock()
		if err != nil {
			yield(nil, err)
		}
	}
}

func (c *Conversation) command(ctx context.Context, request *orchestratorv1.ConverseRequest) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	answer := make(chan *orchestratorv1.ConverseReply, 1)
	c.mu.Lock()
	c.number++
	request.CorrelationId = strconv.Itoa(c.number)
	c.answers[request.GetCorrelationId()] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.answers, request.GetCorrelationId())
		c.mu.Unlock()
	}()
	c.sending.Lock()
	err := c.stream.Send(request)
	c.sending.Unlock()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	select {
	case reply := <-answer:
		if reply.GetFailure() != nil {
			return nil, FromFailure(reply.GetFailure())
		}
		return RunOf(reply.GetRun()), nil
	case <-c.ended:
		return nil, c.failure()
	case <-ctx.Done():
		return nil, ToError(ctx.Err(), "")
	}
}

func (c *Conversation) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return NewError(ReasonUnavailable, "the stream has ended")
}

func (c *Conversation) read(ctx context.Context) {
	defer close(c.ended)
	defer close(c.events)
	defer c.cancel()
	for {
		response, err := c.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.mu.Lock()
				c.err = ToError(err, "")
				c.mu.Unlock()
			}
			return
		}
		for _, reply := range response.GetReplies() {
			c.mu.Lock()
			if answer, ok := c.answers[reply.GetCorrelationId()]; ok {
				delete(c.answers, reply.GetCorrelationId())
				answer <- reply
			}
			c.mu.Unlock()
		}
		for _, each := range response.GetEvents() {
			select {
			case c.events <- EventOf(each):
			case <-ctx.Done():
				return
			}
		}
	}
}
