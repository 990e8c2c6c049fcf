package agent

import (
	"container/list"
	"log/slog"
	"time"

	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

const (
	maxEpochs      = 10_000
	maxOver        = 10_000
	maxParkedBytes = 64 << 20
)

type overKey struct {
	runID, taskID string
	attempt       int32
}

// attemptTable has the attempts that an agent holds, one per task: in progress, or finished and parked until the result is
// acknowledged. They outlive a stream that breaks. The server's lock guards it.
type attemptTable struct {
	attempts    map[string]*attempt
	running     map[*attempt]struct{} // whose handler has not ended, also those that are over without it
	abandoned   map[*attempt]struct{} // running attempts that are over: their handler did not end when it was cancelled
	kept        map[*attempt]int
	parkedBytes int
	epochs      bounded[string, int64]
	over        bounded[overKey, struct{}]
	news        chan struct{} // closed at the next change; nil if nobody waits
	onChanged   func()
}

func newAttemptTable(onChanged func()) *attemptTable {
	return &attemptTable{
		attempts: map[string]*attempt{}, running: map[*attempt]struct{}{}, abandoned: map[*attempt]struct{}{},
		kept: map[*attempt]int{}, epochs: newBounded[string, int64](maxEpochs),
		over: newBounded[overKey, struct{}](maxOver), onChanged: onChanged,
	}
}

// newest returns the attempt at a task that is held, whatever its number; nil if there is none.
func (t *attemptTable) newest(taskID string) *attempt { return t.attempts[taskID] }

// add adds an attempt. An older one at the same task is stopped and dropped: its result could not count.
func (t *attemptTable) add(a *attempt) {
	id := a.channel.Ref.GetTaskId()
	older := t.attempts[id]
	if older != nil {
		older.sink = nil
		older.cancel(false)
	}
	t.attempts[id] = a
	if older != nil {
		t.recount(older)
	}
}

// drop drops an attempt whose result was acknowledged or does not count, and remembers for a while that it is over.
func (t *attemptTable) drop(a *attempt) {
	t.markOver(a.channel.Ref)
	if t.attempts[a.channel.Ref.GetTaskId()] == a {
		delete(t.attempts, a.channel.Ref.GetTaskId())
		t.recount(a)
	}
	a.sink = nil
	a.cancel(false)
	t.changed()
}

func (t *attemptTable) markOver(ref *commonv1.TaskRef) {
	t.over.set(overKey{ref.GetRunId(), ref.GetTaskId(), ref.GetAttempt()}, struct{}{})
}

// isOver reports whether the attempt is known to be over: a late copy of its assignment starts nothing.
func (t *attemptTable) isOver(ref *commonv1.TaskRef) bool {
	_, ok := t.over.get(overKey{ref.GetRunId(), ref.GetTaskId(), ref.GetAttempt()})
	return ok
}

// checkEpoch returns STALE_EPOCH below the highest epoch seen for the run, and remembers a higher one.
func (t *attemptTable) checkEpoch(ref *commonv1.TaskRef, held *attempt) error {
	highest, _ := t.epochs.get(ref.GetRunId())
	if held != nil {
		highest = max(highest, held.channel.Ref.GetEpoch()) // that of a run may have been forgotten, that of an attempt not
	}
	if ref.GetEpoch() < highest {
		return staleEpoch(ref, highest)
	}
	t.epochs.set(ref.GetRunId(), ref.GetEpoch())
	return nil
}

// working returns how many attempts have no result yet.
func (t *attemptTable) working() int {
	count := 0
	for _, a := range t.attempts {
		if a.working() {
			count++
		}
	}
	return count
}

// parkedFull reports whether so many unacknowledged bytes are parked that no credit may be given.
func (t *attemptTable) parkedFull() bool { return t.parkedBytes > maxParkedBytes }

// recount counts the unacknowledged bytes of an attempt anew.
func (t *attemptTable) recount(a *attempt) {
	bytes := 0
	if t.attempts[a.channel.Ref.GetTaskId()] == a {
		bytes = a.channel.PendingBytes
	}
	t.parkedBytes += bytes - t.kept[a]
	if bytes > 0 {
		t.kept[a] = bytes
	} else {
		delete(t.kept, a)
	}
}

// expire drops results that were not acknowledged within the time that the orchestrator asked for.
func (t *attemptTable) expire(now time.Time) {
	for id, a := range t.attempts {
		if !a.working() && now.Sub(a.finishedAt) > a.parkTTL {
			slog.Warn("dropped a result that was never acknowledged", "task_id", id, "run_id", a.channel.Ref.GetRunId())
			t.drop(a)
		}
	}
}

// handlerEnded frees the slot of an attempt.
func (t *attemptTable) handlerEnded(a *attempt) {
	delete(t.running, a)
	delete(t.abandoned, a)
}

// changed wakes all that wait for news.
func (t *attemptTable) changed() {
	if t.news != nil {
		close(t.news)
		t.news = nil
	}
	t.onChanged()
}

// next returns a channel that is closed at the next change.
func (t *attemptTable) next() <-chan struct{} {
	if t.news == nil {
		t.news = make(chan struct{})
	}
	return t.news
}

// bounded is a map that forgets the entry that was set least recently.
type bounded[K comparable, V any] struct {
	most    int
	entries map[K]*list.Element
	order   *list.List
}

type boundedEntry[K comparable, V any] struct {
	key   K
	value V
}

func newBounded[K comparable, V any](most int) bounded[K, V] {
	return bounded[K, V]{most, map[K]*list.Element{}, list.New()}
}

func (b *bounded[K, V]) get(key K) (V, bool) {
	if element, ok := b.entries[key]; ok {
		entry, _ := element.Value.(*boundedEntry[K, V])
		return entry.value, true
	}
	var none V
	return none, false
}

func (b *bounded[K, V]) set(key K, value V) {
	if element, ok := b.entries[key]; ok {
		entry, _ := element.Value.(*boundedEntry[K, V])
		entry.value = value
		b.order.MoveToBack(element)
		return
	}
	b.entries[key] = b.order.PushBack(&boundedEntry[K, V]{key, value})
	if len(b.entries) > b.most {
		oldest := b.order.Front()
		entry, _ := oldest.Value.(*boundedEntry[K, V])
		delete(b.entries, entry.key)
		b.order.Remove(oldest)
	}
}
