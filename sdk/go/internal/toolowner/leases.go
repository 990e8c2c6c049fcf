package toolowner

import (
	"container/list"
	"crypto/rand"
	"encoding/base64"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
)

const (
	maxLeases = 4_096 // of all tools; above it the one that was used least recently makes room, if it was idle for idleTime
	idleTime  = time.Minute
)

// lease is the right to execute one tool until expires. task and instanceID are the claims of its holder, for the log.
type lease struct {
	id         string
	toolName   string
	expires    time.Time
	task       *commonv1.TaskRef
	instanceID string
	window     *window
	used       time.Time
	calls      int // in progress
	element    *list.Element
}

// leaseTable has the leases that are in force, in the order of their last use.
type leaseTable struct {
	leases map[string]*lease
	order  *list.List
}

func newLeaseTable() leaseTable { return leaseTable{map[string]*lease{}, list.New()} }

func (t *leaseTable) grant(toolName string, d time.Duration, rate int, task *commonv1.TaskRef, instanceID string, now time.Time) (*lease, error) {
	if len(t.leases) >= maxLeases {
		if err := t.makeRoom(now); err != nil {
			return nil, err
		}
	}
	secret := make([]byte, 24)
	if _, err := rand.Read(secret); err != nil {
		return nil, archon.ToError(err, "")
	}
	granted := &lease{
		id: base64.RawURLEncoding.EncodeToString(secret), toolName: toolName, expires: now.Add(d), task: task,
		instanceID: instanceID, window: newWindow(rate), used: now,
	}
	granted.element = t.order.PushBack(granted)
	t.leases[granted.id] = granted
	return granted, nil
}

// find returns a lease, which counts as its use.
func (t *leaseTable) find(id string, now time.Time) (*lease, error) {
	found := t.leases[id]
	if found != nil && !now.Before(found.expires) {
		t.remove(id)
		found = nil
	}
	if found == nil {
		return nil, archon.NewError(archon.ReasonLeaseExpired,
			"the lease of the tool has expired, was revoked, or never existed: lease the tool again")
	}
	found.used = now
	t.order.MoveToBack(found.element)
	return found, nil
}

func (t *leaseTable) remove(id string) *lease {
	found := t.leases[id]
	if found != nil {
		delete(t.leases, id)
		t.order.Remove(found.element)
	}
	return found
}

func (t *leaseTable) ofTool(name string) []*lease {
	var found []*lease
	for _, each := range t.leases {
		if each.toolName == name {
			found = append(found, each)
		}
	}
	return found
}

func (t *leaseTable) makeRoom(now time.Time) error {
	for id, each := range t.leases {
		if !now.Before(each.expires) {
			t.remove(id)
		}
	}
	if len(t.leases) < maxLeases {
		return nil
	}
	idle := time.Duration(0)
	for element := t.order.Front(); element != nil; element = element.Next() {
		oldest, _ := element.Value.(*lease)
		if oldest.calls > 0 {
			continue
		}
		if idle = now.Sub(oldest.used); idle >= idleTime {
			t.remove(oldest.id)
			return nil
		}
		break
	}
	return archon.NewError(archon.ReasonResourceExhausted, "this instance has too many leases of tools in use",
		archon.WithRetryDelay(max(time.Second, idleTime-idle)))
}

// window lets at most rate calls start within any minute; nil lets any number.
type window struct {
	rate   int
	starts []time.Time
}

func newWindow(rate int) *window {
	if rate == 0 {
		return nil
	}
	return &window{rate: rate}
}

// refusal returns the error for a call that may not start now, with its delay.
func (w *window) refusal(name string, now time.Time) error {
	if w == nil || len(w.starts) < w.rate {
		return nil
	}
	delay := w.starts[0].Add(time.Minute).Sub(now)
	if delay <= 0 {
		return nil
	}
	return archon.NewError(archon.ReasonResourceExhausted, "tool "+name+" is called too often: the next call in "+
		delay.Round(time.Second).String(), archon.WithRetryDelay(delay), archon.WithMetadata("tool", name))
}

func (w *window) take(now time.Time) {
	if w == nil {
		return
	}
	w.starts = append(w.starts, now)
	if len(w.starts) > w.rate {
		w.starts = w.starts[1:]
	}
}
