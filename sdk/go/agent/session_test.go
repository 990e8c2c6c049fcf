package agent_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
	agentv1 "github.com/archon-mesh/archon/sdk/go/api/agent/v1"
	archontest "github.com/archon-mesh/archon/sdk/go/testing"
)

// echo answers with the text of its task.
func echo(_ context.Context, task *agent.Task) (agent.Answer, error) {
	return agent.Text(task.Text()), nil
}

// forever waits until it is cancelled.
func forever(ctx context.Context, _ *agent.Task) (agent.Answer, error) {
	<-ctx.Done()
	return agent.Answer{}, ctx.Err()
}

func TestATaskIsAnswered(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", echo))
	ready := peer.Open()
	if ready.GetRole() != "cook" || ready.GetProtocol() != 1 || ready.GetMaxTasks() != 8 {
		t.Fatalf("ready is %v", ready)
	}
	ref := peer.Ref("task-1")
	peer.Assign(ref, "grüße, 你好")
	if text := peer.Text(ref); text != "grüße, 你好" {
		t.Fatalf("the answer is %q", text)
	}
}

// Contract rule 1 (C1): the time that remains travels, not a deadline by the clock of the wall.
func TestC1TheTimeThatRemainsIsTheDeadlineOfTheContext(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		deadline, ok := ctx.Deadline()
		left, limited := task.Remaining()
		if !ok || !limited || time.Until(deadline) > time.Minute || left > time.Minute || left < 50*time.Second {
			return agent.Text("wrong"), nil
		}
		return agent.Text("right"), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "", archontest.Within(time.Minute))
	if text := peer.Text(ref); text != "right" {
		t.Fatalf("the deadline is %s", text)
	}
}

// C1: a task whose time is over fails, and its handler is cancelled.
func TestC1ATaskWhoseTimeIsOverFails(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !task.IsOver() {
			return agent.Text("not the deadline"), nil
		}
		return agent.Answer{}, ctx.Err()
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "", archontest.Within(50*time.Millisecond))
	result := peer.Result(ref)
	if err := archon.FromFailure(result.GetFailure()); !errors.Is(err, archon.ReasonDeadlineExceeded) {
		t.Fatalf("the result is %v", result)
	}
}

// C1: the trace context of the assignment is the parent of the handler's work.
func TestC1TheTraceContextTravels(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(ctx context.Context, _ *agent.Task) (agent.Answer, error) {
		traceparent, _ := archon.TraceOf(ctx)
		return agent.Text(traceparent), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "", func(a *agentv1.AssignTask) { a.Trace = traceOf(parent) })
	if text := peer.Text(ref); !strings.HasPrefix(text, "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Fatalf("the trace is %q", text)
	}
}

// C2: a task beyond the capacity is rejected with a delay.
func TestC2ATaskBeyondTheCapacityIsRejected(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", forever, agent.WithMaxTasks(1)))
	peer.Open()
	peer.Assign(peer.Ref("task-1"), "")
	second := peer.Ref("task-2")
	peer.Assign(second, "")
	reject := peer.Receive("reject", second)
	err := archon.FromFailure(reject.GetReject().GetFailure())
	if !errors.Is(err, archon.ReasonNoCapacity) || err.RetryDelay == nil || reject.GetSequence() != 1 {
		t.Fatalf("the reject is %v", reject)
	}
}

// C2: the capacity is split over open sessions, and each share is announced.
func TestC2TheCapacityIsSplitOverSessions(t *testing.T) {
	server := archontest.Start(t, "cook", echo, agent.WithMaxTasks(4))
	first := archontest.Dial(t, server)
	if share := first.Open().GetMaxTasks(); share != 4 {
		t.Fatalf("the first share is %d", share)
	}
	second := archontest.Dial(t, server)
	second.ID = "orchestrator-2"
	if share := second.Open().GetMaxTasks(); share != 2 {
		t.Fatalf("the second share is %d", share)
	}
	if credit := first.Receive("credit", nil).GetCredit(); credit.GetMaxTasks() != 2 {
		t.Fatalf("the credit is %v", credit)
	}
	second.Break()
	if credit := first.Receive("credit", nil).GetCredit(); credit.GetMaxTasks() != 4 {
		t.Fatalf("the credit after the end is %v", credit)
	}
}

// C3: heartbeats are echoed, also while a handler blocks its goroutine.
func TestC3HeartbeatsAreEchoed(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(context.Context, *agent.Task) (agent.Answer, error) {
		<-release
		return agent.Answer{}, nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	for counter := int64(1); counter <= 3; counter++ {
		peer.Heartbeat(counter)
		if echo := peer.Receive("heartbeat", nil).GetHeartbeat(); echo.GetEcho() != counter || echo.GetCounter() != 0 {
			t.Fatalf("the echo is %v", echo)
		}
	}
	if ack := peer.Receive("", ref).GetAck(); ack != 1 { // C5: with the next echo
		t.Fatalf("the ack is %d", ack)
	}
}

// C4: an Open that names another instance ends the stream.
func TestC4AnotherInstanceIsRefused(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", echo))
	open := peer.Opening()
	open.InstanceId = "another"
	peer.Send(&agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Open{Open: open}})
	if err := peer.Ended(); !errors.Is(err, archon.ReasonWrongInstance) {
		t.Fatalf("the stream ended with %v", err)
	}
}

// C4: a second Open on one stream is answered by a failure.
func TestC4ASecondOpenIsAnsweredByAFailure(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", echo))
	peer.Open()
	peer.Send(&agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Open{Open: peer.Opening()}})
	if err := peer.Failure(); !errors.Is(err, archon.ReasonSessionAlreadyOpen) {
		t.Fatalf("the failure is %v", err)
	}
}

// C4: a newer stream of the same orchestrator replaces the older one.
func TestC4ANewerStreamReplacesTheOlder(t *testing.T) {
	server := archontest.Start(t, "cook", echo)
	older := archontest.Dial(t, server)
	older.Open()
	archontest.Dial(t, server).Open()
	if err := older.Ended(); !errors.Is(err, archon.ReasonSessionReplaced) {
		t.Fatalf("the older stream ended with %v", err)
	}
}

// C4: frames about a task count only from its owner.
func TestC4FramesOfAnotherOrchestratorAreRefused(t *testing.T) {
	server := archontest.Start(t, "cook", forever)
	owner := archontest.Dial(t, server)
	owner.Open()
	ref := owner.Ref("task-1")
	owner.Assign(ref, "")
	stranger := archontest.Dial(t, server)
	stranger.ID = "orchestrator-2"
	stranger.Open()
	stranger.Cancel(ref, "")
	if err := stranger.Failure(); !errors.Is(err, archon.ErrPermissionDenied) {
		t.Fatalf("the failure is %v", err)
	}
	owner.Never("result", ref, 50*time.Millisecond)
}

// C4: a dial may begin with a connection that sends the preface of HTTP/2 and is closed when the first byte arrives.
func TestC4AConnectionThatOnlyProbesHarmsNothing(t *testing.T) {
	server := archontest.Start(t, "cook", echo)
	probe, err := net.Dial("tcp", server.Address())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := probe.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	if _, err := probe.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = probe.Close()
	archontest.Dial(t, server).Open()
}

// C10: a frame that cannot be decoded affects itself alone.
func TestC10AMalformedFrameAffectsItselfAlone(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", echo))
	peer.Open()
	ref := peer.Ref("task-1")
	good, err := proto.Marshal(peer.Assignment(ref, "good"))
	if err != nil {
		t.Fatal(err)
	}
	var message []byte
	for _, frame := range [][]byte{{0x0a, 0x03, 0x0a, 0x01, 0xff}, good} { // a task id that is no UTF-8
		message = protowire.AppendTag(message, 1, protowire.BytesType)
		message = protowire.AppendBytes(message, frame)
	}
	peer.SendRaw(message)
	if failed := peer.Failure(); !errors.Is(failed, archon.ReasonMalformedMessage) {
		t.Fatalf("the failure is %v", failed)
	}
	if text := peer.Text(ref); text != "good" {
		t.Fatalf("the answer is %q", text)
	}
}

// C10: a result above the peer's limit fails its task alone.
func TestC10AResultThatIsTooLargeFailsItsTask(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		if task.Text() == "large" {
			return agent.Text(strings.Repeat("x", 5<<20)), nil
		}
		return agent.Text("small"), nil
	}))
	peer.Open()
	large, small := peer.Ref("task-1"), peer.Ref("task-2")
	peer.Assign(large, "large")
	peer.Assign(small, "small")
	if err := archon.FromFailure(peer.Result(large).GetFailure()); !errors.Is(err, archon.ReasonFrameTooLarge) {
		t.Fatalf("the failure is %v", err)
	}
	if text := peer.Text(small); text != "small" {
		t.Fatalf("the other answer is %q", text)
	}
}

// C10: an answer of nearly 4 MiB arrives.
func TestC10AnAnswerOfFourMebibytesArrives(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(context.Context, *agent.Task) (agent.Answer, error) {
		return agent.Text(strings.Repeat("x", 4<<20-1024)), nil
	}))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	if text := peer.Text(ref); len(text) != 4<<20-1024 {
		t.Fatalf("the answer has %d bytes", len(text))
	}
}

// C11: Ready has the intersection of the features.
func TestC11FeaturesAreNegotiated(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		task.Write("not agreed")
		return agent.Text("done"), nil
	}))
	ready := peer.Open(func(open *agentv1.Open) { open.Features = []string{"park", "time_travel"} })
	if features := ready.GetFeatures(); len(features) != 1 || features[0] != "park" {
		t.Fatalf("the features are %v", features)
	}
	ref := peer.Ref("task-1")
	peer.Assign(ref, "")
	peer.Text(ref)
	peer.Never("progress", ref, 20*time.Millisecond)
}

// C11: an orchestrator of a newer protocol is served with this one, an older one ends.
func TestC11TheLowerProtocolCounts(t *testing.T) {
	server := archontest.Start(t, "cook", echo)
	newer := archontest.Dial(t, server)
	if ready := newer.Open(func(open *agentv1.Open) { open.Protocol = 2 }); ready.GetProtocol() != 1 {
		t.Fatalf("ready is %v", ready)
	}
	older := archontest.Dial(t, server)
	open := older.Opening()
	open.Protocol = 0
	older.Send(&agentv1.OrchestratorFrame{Frame: &agentv1.OrchestratorFrame_Open{Open: open}})
	if err := older.Ended(); !errors.Is(err, archon.ReasonProtocolMismatch) {
		t.Fatalf("the stream ended with %v", err)
	}
}

// C11: an unknown arm is answered by UNKNOWN_FRAME, and the other frames of the message are served.
func TestC11AnUnknownArmIsAnswered(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", echo))
	peer.Open()
	unknown := &agentv1.OrchestratorFrame{}
	unknown.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), nil))
	ref := peer.Ref("task-1")
	peer.Send(unknown, peer.Assignment(ref, "served"))
	if err := peer.Failure(); !errors.Is(err, archon.ReasonUnknownFrame) {
		t.Fatalf("the failure is %v", err)
	}
	if text := peer.Text(ref); text != "served" {
		t.Fatalf("the answer is %q", text)
	}
}

// A frame before Open is refused, and the stream stays.
func TestAFrameBeforeOpenIsRefused(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "cook", echo))
	peer.Heartbeat(1)
	if err := peer.Failure(); !errors.Is(err, archon.ReasonSessionNotOpen) {
		t.Fatalf("the failure is %v", err)
	}
	peer.Open()
}
