package frames

import (
	"runtime"
	"sync"
	"time"
)

// Queue has the frames that wait to leave on one stream. One writer drains it, message by message: a frame that is alone
// leaves at once, an ack alone after 20 ms at the latest; on a stream that is busy with several tasks frames wait up to 5 ms
// for further ones.
//
// At most 2,000 droppable frames wait. All others are bounded by their channels and credit; a peer that lets 50,000 frames
// wait does not read, and loses the stream, not its tasks.
type Queue struct {
	mu         sync.Mutex
	ready      chan struct{} // one token if a message may leave
	isReady    bool          // whether a frame that does not wait is there, or the wait of an ack is over
	frames     []Frame
	droppable  int
	batchBytes int
	closed     bool
	overflowed bool
	ackTimer   *time.Timer
	hold       time.Duration
	leftAt     time.Time
	tasks      map[string]struct{} // of the message that is being taken; kept to be reused
}

const (
	maxDroppable = 2_000
	maxWaiting   = 50_000
)

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{ready: make(chan struct{}, 1), batchBytes: SoftBatchBytes, tasks: map[string]struct{}{}}
}

// LimitBatch lowers the size that a message aims at, if the peer takes less.
func (q *Queue) LimitBatch(bytes int) {
	q.mu.Lock()
	q.batchBytes = bytes
	q.mu.Unlock()
}

// Put queues a frame. It returns false if it was dropped: too many wait, or the stream has ended.
func (q *Queue) Put(frame Frame) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || (frame.Droppable && q.droppable >= maxDroppable) {
		return false
	}
	if len(q.frames) >= maxWaiting {
		q.overflowed = true
		q.frames = nil
		q.close()
		return false
	}
	if frame.Droppable {
		q.droppable++
	}
	q.frames = append(q.frames, frame)
	if len(frame.Content) > 0 {
		q.wake()
	} else if q.ackTimer == nil && !q.isReady {
		q.ackTimer = time.AfterFunc(ackWait, q.acksDue)
	}
	return true
}

func (q *Queue) acksDue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ackTimer = nil
	if len(q.frames) > 0 {
		q.wake()
	}
}

func (q *Queue) wake() {
	q.isReady = true
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Len returns how many frames wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.frames)
}

// Closed reports whether no more frames are taken.
func (q *Queue) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// Overflowed reports whether the queue was closed because the peer did not read.
func (q *Queue) Overflowed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.overflowed
}

// Close ends the queue; the writer ends after the frames that wait.
func (q *Queue) Close() {
	q.mu.Lock()
	q.close()
	q.mu.Unlock()
}

func (q *Queue) close() {
	q.closed = true
	if q.ackTimer != nil {
		q.ackTimer.Stop()
		q.ackTimer = nil
	}
	q.wake()
}

// Batch waits for frames and returns a serialised message of about the size of a batch; nil once the queue is closed and
// empty, or stop is closed.
func (q *Queue) Batch(stop <-chan struct{}) []byte {
	for {
		q.mu.Lock()
		if q.closed || (q.isReady && len(q.frames) > 0) {
			break
		}
		q.mu.Unlock()
		select {
		case <-q.ready:
		case <-stop:
			return nil
		}
	}
	if wait := q.hold - time.Since(q.leftAt); q.hold > 0 && wait > 0 && !q.closed {
		q.mu.Unlock()
		time.Sleep(wait)
		q.mu.Lock()
	} else if !q.closed {
		q.mu.Unlock()
		runtime.Gosched() // handlers that are about to end share the message
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	message := q.take()
	q.leftAt = time.Now()
	return message
}

// take removes the frames of the next message.
func (q *Queue) take() []byte {
	count, size, tasks := 0, 0, 0
	clear(q.tasks)
	for count < len(q.frames) {
		frame := &q.frames[count]
		if count > 0 && size+frame.Size() > q.batchBytes {
			break
		}
		size += frame.Size()
		count++
		if len(frame.Content) > 0 && frame.TaskID != "" { // not an ack alone
			q.tasks[frame.TaskID] = struct{}{}
		}
		if frame.Droppable {
			q.droppable--
		}
	}
	if count == 0 {
		return nil
	}
	tasks = len(q.tasks)
	message := make([]byte, 0, size)
	for i := range q.frames[:count] {
		message = append(append(message, q.frames[i].Head...), q.frames[i].Content...)
		q.frames[i] = Frame{}
	}
	left := copy(q.frames, q.frames[count:])
	clear(q.frames[left:])
	q.frames = q.frames[:left]
	if left == 0 {
		if !q.closed {
			q.isReady = false
		}
		if q.ackTimer != nil {
			q.ackTimer.Stop()
			q.ackTimer = nil
		}
	}
	q.hold = 0
	if left == 0 && tasks > 1 {
		part := min(1, float64(tasks)/fullLoad)
		q.hold = time.Duration(float64(hold) * part * part)
	}
	return message
}
