package agent

import (
	"context"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
)

// maxSending is the most messages of an attempt that wait for the journal at a time; further ones wait before they are sent.
const maxSending = 32

// pendingKey names a call: the arm of the frame that makes it, and its own id.
type pendingKey struct {
	arm protowire.Number
	id  string
}

type reply struct {
	frame *agentv1.OrchestratorFrame
	err   error
}

// pendingCalls are the calls of an attempt that wait for its orchestrator: delegations, questions to people, requests for
// more of the budget, messages. An answer may come twice, from two owners: the first counts. The server's lock guards it.
type pendingCalls struct {
	attempt     *attempt
	waiting     map[pendingKey]chan reply
	delegations int // that wait: the attempt takes no slot then
	requests    int
	asking      chan struct{} // one question at a time
	sending     chan struct{}
}

func (p *pendingCalls) check(feature string, content []byte) error {
	if !p.attempt.working() {
		return archon.NewError(archon.ReasonCancelled, "the task is over")
	}
	if !p.attempt.agreed(feature) {
		return unsupported(feature)
	}
	return p.attempt.channel.CheckSize(content, p.attempt.limit)
}

// call sends a frame and waits for its answer. It is called without the lock. flush: what was recorded goes first.
func (p *pendingCalls) call(
	ctx context.Context, feature string, arm protowire.Number, id string, message proto.Message, flush bool,
) (*agentv1.OrchestratorFrame, error) {
	content, err := frames.Content(arm, message)
	if err != nil {
		return nil, err
	}
	a := p.attempt
	server := a.server
	server.mu.Lock()
	if err := p.check(feature, content); err != nil {
		server.mu.Unlock()
		return nil, err
	}
	key := pendingKey{arm, id}
	if p.waiting == nil {
		p.waiting = map[pendingKey]chan reply{}
	}
	if _, exists := p.waiting[key]; exists {
		server.mu.Unlock()
		return nil, archon.NewError(archon.ReasonInvalidArgument, "a call with the id '"+id+"' is on its way")
	}
	answer := make(chan reply, 1)
	p.waiting[key] = answer
	if arm == armDelegate {
		p.delegations++
	}
	if flush {
		a.flush()
	}
	if arm == armAsk {
		a.stopClock()
	}
	a.send(content, true)
	server.mu.Unlock()

	var got reply
	select {
	case got = <-answer:
	case <-ctx.Done():
		got.err = causeOf(ctx)
	case <-a.ctx.Done(): // the caller's context may not be the task's
		got.err = causeOf(a.ctx)
	}

	server.mu.Lock()
	defer server.mu.Unlock()
	if p.forget(key, answer) && arm == armDelegate && a.working() {
		if content, err := frames.Content(armCancelDelegation, &agentv1.CancelDelegation{DelegationId: id}); err == nil {
			a.send(content, true)
		}
	}
	if arm == armAsk {
		a.startClock()
	}
	return got.frame, got.err
}

// forget ends the wait of a call that was not answered. It returns false if it was.
func (p *pendingCalls) forget(key pendingKey, answer chan reply) bool {
	if p.waiting[key] != answer {
		return false
	}
	delete(p.waiting, key)
	if key.arm == armDelegate {
		p.delegations--
	}
	return true
}

// answered takes an answer, and drops it if no call waits for it.
func (p *pendingCalls) answered(frame *agentv1.OrchestratorFrame) {
	switch arm := frame.GetFrame().(type) {
	case *agentv1.OrchestratorFrame_DelegateResult:
		p.deliver(pendingKey{armDelegate, arm.DelegateResult.GetDelegationId()}, reply{frame: frame})
	case *agentv1.OrchestratorFrame_Input:
		p.deliver(pendingKey{armAsk, arm.Input.GetInputId()}, reply{frame: frame})
	case *agentv1.OrchestratorFrame_MessageResult:
		p.deliver(pendingKey{armSendMessage, arm.MessageResult.GetMessageId()}, reply{frame: frame})
	case *agentv1.OrchestratorFrame_BudgetGrant:
		p.deliver(pendingKey{armBudgetRequest, arm.BudgetGrant.GetRequestId()}, reply{frame: frame})
	}
}

func (p *pendingCalls) deliver(key pendingKey, answer reply) {
	if waiting, ok := p.waiting[key]; ok {
		waiting <- answer
		p.forget(key, waiting)
	}
}

// refuse fails all calls: the orchestrator does not know these frames and will not answer.
func (p *pendingCalls) refuse(err error) {
	for key := range p.waiting {
		p.deliver(key, reply{err: err})
	}
}

// close ends all calls: the task is over and nothing will be answered.
func (p *pendingCalls) close() {
	p.refuse(archon.NewError(archon.ReasonCancelled, "the task is over"))
}

// nextRequest returns the id of a request for more of the budget.
func (p *pendingCalls) nextRequest() string {
	p.requests++
	return "b" + strconv.Itoa(p.requests)
}

// enter takes a place in a semaphore, which holds at most size callers.
func enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return causeOf(ctx)
	}
}

// causeOf returns why a context was cancelled, as a typed error.
func causeOf(ctx context.Context) error {
	if cause := archon.AsError(context.Cause(ctx)); cause != nil {
		return cause
	}
	return archon.ToError(ctx.Err(), "")
}
