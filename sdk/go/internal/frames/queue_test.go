package frames

import (
	"fmt"
	"testing"
	"time"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

func frame(task string, bytes int) Frame {
	return Frame{TaskID: task, Head: []byte{1}, Content: make([]byte, bytes)}
}

func TestAFrameThatIsAloneLeavesAtOnce(t *testing.T) {
	queue := NewQueue()
	queue.Put(frame("a", 10))
	began := time.Now()
	if message := queue.Batch(nil); len(message) != 11 || time.Since(began) > time.Second {
		t.Fatalf("%d bytes after %v", len(message), time.Since(began))
	}
}

func TestAMessageAimsAtItsSize(t *testing.T) {
	queue := NewQueue()
	queue.LimitBatch(250)
	for i := range 5 {
		queue.Put(frame(fmt.Sprint(i), 100))
	}
	var sizes []int
	for queue.Len() > 0 {
		sizes = append(sizes, len(queue.Batch(nil)))
	}
	if fmt.Sprint(sizes) != "[202 202 101]" {
		t.Fatalf("the messages have %v bytes", sizes)
	}
}

func TestAnAckAloneWaitsForAnotherFrame(t *testing.T) {
	queue := NewQueue()
	queue.Put(Frame{TaskID: "a", Head: []byte{1}})
	stop := make(chan struct{})
	time.AfterFunc(5*time.Millisecond, func() { queue.Put(frame("a", 3)) })
	if message := queue.Batch(stop); len(message) != 5 {
		t.Fatalf("%d bytes", len(message))
	}
	queue.Put(Frame{TaskID: "a", Head: []byte{1}})
	if message := queue.Batch(stop); len(message) != 1 { // after its wait
		t.Fatalf("%d bytes", len(message))
	}
}

func TestOnlyDeltasAreDropped(t *testing.T) {
	queue := NewQueue()
	for range maxDroppable {
		queue.Put(Frame{Content: []byte{1}, Droppable: true})
	}
	if queue.Put(Frame{Content: []byte{1}, Droppable: true}) || !queue.Put(frame("a", 1)) {
		t.Fatal("the wrong frame was dropped")
	}
}

func TestAPeerThatDoesNotReadLosesTheStream(t *testing.T) {
	queue := NewQueue()
	for range maxWaiting + 1 {
		queue.Put(frame("a", 1))
	}
	if !queue.Overflowed() || !queue.Closed() || queue.Batch(nil) != nil {
		t.Fatal("the queue goes on")
	}
}

func TestFramesAreKeptUntilTheyAreAcknowledged(t *testing.T) {
	channel := NewChannel(&commonv1.TaskRef{TaskId: "t", RunId: "r", Attempt: 1, Epoch: 1})
	for range 3 {
		channel.Stamp([]byte("content"), true)
	}
	channel.Acked(2)
	if unacked := channel.Unacked(); len(unacked) != 1 || channel.PendingBytes != 7 {
		t.Fatalf("%d frames, %d bytes", len(unacked), channel.PendingBytes)
	}
	for sequence, want := range map[int64]Verdict{3: Gap, 0: Duplicate} {
		if got := channel.Take(sequence); got != want {
			t.Errorf("%d: %v", sequence, got)
		}
	}
	if channel.Take(1) != Apply || channel.Take(1) != Duplicate || channel.Take(2) != Apply {
		t.Error("frames in order are not applied once")
	}
}
