package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	archontest "github.com/archon-mesh/archon/sdk/go/testing"
)

func textPart(text string) []*commonv1.Part { return []*commonv1.Part{archon.TextPart(text).Proto()} }

// C6: an item is published before the answer; newer answers of other roles replace what the attempt has of them.
func TestC6ItemsAndNewerAnswers(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		changed := task.ContextChanged()
		if err := task.Publish(agent.Item{Text: "half", Policy: archon.ToolResults}); err != nil {
			return agent.Answer{}, err
		}
		if err := task.Publish(agent.Item{Text: " "}); !errors.Is(err, archon.ErrInvalidArgument) {
			return agent.Text("an empty item was taken"), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return agent.Answer{}, ctx.Err()
		}
		items := task.Context()
		return agent.Text(items[0].Role + "=" + items[0].Text + " " + items[1].Role + "=" + items[1].Text), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	item := func(role, text string) *commonv1.ContextItem {
		return &commonv1.ContextItem{Ref: &commonv1.MemoryRef{Role: role, RunId: "run-1", Seq: 4}, Parts: textPart(text)}
	}
	peer.Assign(ref, "", func(a *agentv1.AssignTask) { a.Context = []*commonv1.ContextItem{item("a", "old")} })
	published := peer.Receive("publish", ref)
	if published.GetSequence() != 1 || published.GetPublish().GetPolicy() != archon.ToolResults.Proto() {
		t.Fatalf("published is %v", published)
	}
	peer.Send(peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_UpdateMemory{
		UpdateMemory: &agentv1.UpdateMemory{Context: []*commonv1.ContextItem{item("a", "new"), item("b", "first")}},
	}}))
	result := peer.Result(ref)
	if text := archon.TextOf(result.GetOutput()); text != "a=new b=first" || len(result.GetUsed()) != 2 {
		t.Fatalf("the result is %v", result)
	}
}

// C7: a question that ends the attempt has its checkpoint.
func TestC7AQuestionEndsTheAttempt(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		if answer, ok := task.Answers()["size"]; ok {
			return agent.Text(answer.Text + " from " + string(task.Checkpoint())), nil
		}
		return agent.Ask(agent.Question{Text: "How many?", InputID: "size", Checkpoint: []byte("here")}), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	result := peer.Result(ref)
	if result.GetState() != commonv1.TaskState_TASK_STATE_INPUT_REQUIRED || string(result.GetCheckpoint()) != "here" ||
		result.GetInputRequest().GetInputId() != "size" {
		t.Fatalf("the result is %v", result)
	}
	second := peer.Ref("task-1")
	second.Attempt = 2
	peer.Assign(second, "", func(a *agentv1.AssignTask) {
		a.Resume = &agentv1.Resume{Checkpoint: []byte("here"), Answers: []*agentv1.ResumedInput{{InputId: "size", Parts: textPart("two")}}}
	})
	if text := peer.Text(second); text != "two from here" {
		t.Fatalf("the answer is %q", text)
	}
}

// C7: while a live question waits, the clock of the task stands still.
func TestC7TheClockStandsStillWhileAPersonIsAsked(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		given, err := task.Ask(ctx, agent.Question{Text: "Sure?"})
		if err != nil {
			return agent.Answer{}, err
		}
		if _, limited := ctx.Deadline(); !limited {
			return agent.Text("no deadline after the answer"), nil
		}
		return agent.Text(given.Text + " by " + given.Identity), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "", archontest.Within(300*time.Millisecond))
	asked := peer.Receive("ask", ref).GetAsk()
	peer.Never("result", ref, 600*time.Millisecond)
	peer.Send(peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Input{
		Input: &agentv1.Input{InputId: asked.GetInputId(), Parts: textPart("yes"), Identity: "alice"},
	}}))
	if text := peer.Text(ref); text != "yes by alice" {
		t.Fatalf("the answer is %q", text)
	}
}

// C8: a delegation gets its result, or its failure as the error that was raised there.
func TestC8DelegationsAreAnswered(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		done, err := task.Delegate(ctx, agent.Delegation{Role: "baker", Text: "bread", Timeout: time.Minute, MemoKey: "bread"})
		if err != nil {
			return agent.Answer{}, err
		}
		_, err = task.Delegate(ctx, agent.Delegation{Capability: "wine"})
		if !errors.Is(err, archon.ReasonUnknownCapability) {
			return agent.Text("no typed error"), nil
		}
		if _, err := task.Delegate(ctx, agent.Delegation{}); !errors.Is(err, archon.ErrInvalidArgument) {
			return agent.Text("a delegation to nobody was sent"), nil
		}
		return agent.Text(done.Text), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	first := peer.Receive("delegate", ref).GetDelegate()
	if first.GetRole() != "baker" || first.GetMemoKey() != "bread" || first.GetTimeout().AsDuration() != time.Minute {
		t.Fatalf("the delegation is %v", first)
	}
	peer.Delegated(ref, first.GetDelegationId(), archontest.Completed("rye"))
	second := peer.Receive("delegate", ref).GetDelegate()
	peer.Delegated(ref, second.GetDelegationId(),
		archontest.FailedWith(archon.NewError(archon.ReasonUnknownCapability, "no instance offers wine")))
	if text := peer.Text(ref); text != "rye" {
		t.Fatalf("the answer is %q", text)
	}
}

// C8: cancelling a delegation's context cancels the delegated work.
func TestC8ACancelledDelegationIsWithdrawn(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		_, err := task.Delegate(short, agent.Delegation{Role: "baker"})
		if !errors.Is(err, context.DeadlineExceeded) {
			return agent.Text("no deadline"), nil
		}
		return agent.Text("withdrawn"), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	delegated := peer.Receive("delegate", ref).GetDelegate()
	if cancelled := peer.Receive("cancel_delegation", ref).GetCancelDelegation(); cancelled.GetDelegationId() != delegated.GetDelegationId() {
		t.Fatalf("cancelled is %v", cancelled)
	}
	if text := peer.Text(ref); text != "withdrawn" {
		t.Fatalf("the answer is %q", text)
	}
}

// C2: a task that only waits for its delegations takes no slot.
func TestC2ATaskThatWaitsForDelegationsTakesNoSlot(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		if task.Text() == "delegate" {
			done, err := task.Delegate(ctx, agent.Delegation{Role: "baker"})
			return agent.Text(done.Text), err
		}
		return agent.Text("in between"), nil
	}, agent.WithMaxTasks(1)))
	peer.Open()
	waiting, other := peer.Ref("task-1"), peer.Ref("task-2")
	peer.Assign(waiting, "delegate")
	delegated := peer.Receive("delegate", waiting).GetDelegate()
	peer.Assign(other, "")
	if text := peer.Text(other); text != "in between" {
		t.Fatalf("the other answer is %q", text)
	}
	peer.Delegated(waiting, delegated.GetDelegationId(), archontest.Completed("rye"))
	peer.Text(waiting)
}

// C9: an attempt asks for more of the budget before a call that needs it; usage travels on progress and result.
func TestC9TheBudgetIsGrantedInSlices(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		if err := task.Reserve(ctx, agent.Reservation{Tokens: 150}); err != nil {
			return agent.Answer{}, err
		}
		err := task.RecordModelCall(agent.ModelCall{Model: "m", Usage: archon.Usage{InputTokens: 100, OutputTokens: 40}})
		if err != nil {
			return agent.Answer{}, err
		}
		return agent.Answer{}, task.Reserve(ctx, agent.Reservation{Tokens: 1000})
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "", func(a *agentv1.AssignTask) { a.Budget = &commonv1.Budget{MaxTokens: 100} })
	request := peer.Receive("budget_request", ref).GetBudgetRequest()
	if request.GetBudget().GetMaxTokens() != 50 {
		t.Fatalf("the request is %v", request)
	}
	grant := func(grant *agentv1.BudgetGrant) {
		peer.Send(peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_BudgetGrant{BudgetGrant: grant}}))
	}
	grant(&agentv1.BudgetGrant{RequestId: request.GetRequestId(), Budget: &commonv1.Budget{MaxTokens: 50}})
	if usage := peer.Receive("progress", ref).GetProgress().GetUsage(); usage.GetInputTokens() != 100 {
		t.Fatalf("the usage is %v", usage)
	}
	more := peer.Receive("budget_request", ref).GetBudgetRequest()
	grant(&agentv1.BudgetGrant{
		RequestId: more.GetRequestId(), Failure: archon.NewError(archon.ReasonBudgetExhausted, "nothing is left").ToFailure(),
	})
	result := peer.Result(ref)
	err := archon.FromFailure(result.GetFailure())
	if !errors.Is(err, archon.ReasonBudgetExhausted) || result.GetUsage().GetModelCalls() != 1 {
		t.Fatalf("the result is %v", result)
	}
}

// C12: records precede the result, in sequence.
func TestC12RecordsPrecedeTheResult(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		err := task.RecordToolCall(agent.ToolCall{Tool: "oven", Arguments: json.RawMessage(`{"degrees":200}`), Result: true})
		return agent.Text("done"), err
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	recorded, result := peer.Receive("record", ref), peer.Receive("result", ref)
	if recorded.GetSequence() != 1 || result.GetSequence() != 2 || recorded.GetRecord().GetRequestJson() != `{"degrees":200}` {
		t.Fatalf("the record is %v, the result %v", recorded, result)
	}
}

// C12: a record that no frame follows is sent soon.
func TestC12ARecordIsSentSoon(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		if err := task.RecordToolCall(agent.ToolCall{Tool: "oven", Arguments: 1, Result: 2}); err != nil {
			return agent.Answer{}, err
		}
		return forever(ctx, task)
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Receive("record", ref)
}

// C12: a record that is too large for a frame is sent without its contents.
func TestC12ALargeRecordIsSentWithoutItsContents(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		large := strings.Repeat("x", 200<<10)
		return agent.Text("done"), task.RecordToolCall(agent.ToolCall{Tool: "oven", Arguments: large, Result: "small"})
	}))
	peer.Open(func(open *agentv1.Open) { open.MaxMessageBytes = 128 << 10 })
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	if recorded := peer.Receive("record", ref).GetRecord(); !strings.Contains(recorded.GetRequestJson(), "too large to record") {
		t.Fatalf("the record is %v", recorded)
	}
	peer.Text(ref)
}

// C13: a message is answered by its number; messages are delivered once, and the result says what was read.
func TestC13MessagesAreSentAndRead(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		seq, err := task.Send(ctx, agent.Outgoing{To: "baker", Content: "hello"})
		if err != nil || seq != 7 {
			return agent.Answer{}, errors.Join(err, errors.New("no number"))
		}
		if _, err := task.Send(ctx, agent.Outgoing{To: "nobody", Content: "hello"}); !errors.Is(err, archon.ReasonNoReceiver) {
			return agent.Answer{}, errors.New("no typed refusal")
		}
		message, err := task.Receive(ctx)
		if err != nil {
			return agent.Answer{}, err
		}
		return agent.Text(message.SenderID + ": " + message.Text()), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	sent := peer.Receive("send_message", ref).GetSendMessage()
	if sent.GetReceiverId() != "baker" || sent.GetMessageType() != agentv1.MessageType_MESSAGE_TYPE_NOTIFICATION {
		t.Fatalf("sent is %v", sent)
	}
	reply := func(result *agentv1.MessageResult) {
		peer.Send(peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_MessageResult{MessageResult: result}}))
	}
	reply(&agentv1.MessageResult{MessageId: sent.GetMessageId(), Seq: 7})
	refused := peer.Receive("send_message", ref).GetSendMessage()
	reply(&agentv1.MessageResult{
		MessageId: refused.GetMessageId(), Failure: archon.NewError(archon.ReasonNoReceiver, "no such role").ToFailure(),
	})
	peer.Receive("subscribe", ref)
	message := &agentv1.PeerMessage{MessageId: "m", SenderId: "baker", Seq: 9, Content: textPart("flour")}
	for range 2 { // a new owner sends all again
		peer.Send(peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Message{Message: message}}))
	}
	result := peer.Result(ref)
	if archon.TextOf(result.GetOutput()) != "baker: flour" || result.GetMessagesRead() != 9 {
		t.Fatalf("the result is %v", result)
	}
}

// C13: a request gets the reply to it, which Receive does not.
func TestC13ARequestGetsItsReply(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		reply, err := task.Request(ctx, agent.Outgoing{To: "baker", Content: "bread?"})
		if err != nil {
			return agent.Answer{}, err
		}
		return agent.Text(reply.Text()), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	sent := peer.Receive("send_message", ref).GetSendMessage()
	if !sent.GetExpectsReply() {
		t.Fatalf("sent is %v", sent)
	}
	peer.Send(
		peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_MessageResult{
			MessageResult: &agentv1.MessageResult{MessageId: sent.GetMessageId(), Seq: 3},
		}}),
		peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Message{
			Message: &agentv1.PeerMessage{MessageId: "r", Seq: 4, CorrelationId: sent.GetMessageId(), Content: textPart("rye")},
		}}))
	if text := peer.Text(ref); text != "rye" {
		t.Fatalf("the answer is %q", text)
	}
}

func TestMessagesAreHandledWhileTheTaskWorks(t *testing.T) {
	handled := make(chan struct{})
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, _ *agent.Task) (agent.Answer, error) {
		select {
		case <-handled:
		case <-ctx.Done():
		}
		return agent.Text("done"), nil
	}, agent.OnMessage(func(_ context.Context, message *agent.Message, _ *agent.Task) (any, error) {
		defer close(handled)
		return "you said " + message.Text(), nil
	}, "broadcast")))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	if topics := peer.Receive("subscribe", ref).GetSubscribe().GetTopics(); len(topics) != 1 {
		t.Fatalf("the topics are %v", topics)
	}
	peer.Send(peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Message{
		Message: &agentv1.PeerMessage{MessageId: "m", SenderTaskId: "task-9", Seq: 4, Content: textPart("hi")},
	}}))
	answer := peer.Receive("send_message", ref).GetSendMessage()
	if archon.TextOf(answer.GetContent()) != "you said hi" || answer.GetReceiverId() != "task-9" || answer.GetCorrelationId() != "m" {
		t.Fatalf("the answer is %v", answer)
	}
	peer.Send(peer.Stamped(ref, &agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_MessageResult{
		MessageResult: &agentv1.MessageResult{MessageId: answer.GetMessageId(), Seq: 5},
	}}))
	peer.Text(ref)
}

func TestTextIsStreamedWithOffsets(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		task.Write("grü")
		task.Write("ße\xff")
		return agent.Text("grüße"), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	first, second := peer.Receive("progress", ref).GetProgress(), peer.Receive("progress", ref).GetProgress()
	if first.GetText() != "grü" || second.GetOffset() != 4 || second.GetText() != "ße?" {
		t.Fatalf("the pieces are %v and %v", first, second)
	}
	peer.Text(ref)
}

func TestAStatefulRoleExtendsItsHistory(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		return agent.Text(task.History()[0].Text + " " + task.SessionID()), nil
	}, agent.AsStateful()))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "question", func(a *agentv1.AssignTask) {
		a.ConversationId, a.ConversationVersion = "session/cook", 3
		a.History = []*agentv1.HistoryMessage{{Role: "user", Parts: textPart("before")}}
	})
	result := peer.Result(ref)
	if archon.TextOf(result.GetOutput()) != "before session" || result.GetConversationVersion() != 3 || len(result.GetNewHistory()) != 2 {
		t.Fatalf("the result is %v", result)
	}
}
