package toolowner

import (
	"container/list"
	"time"

	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
)

const (
	maxKept      = 10_000
	maxKeptBytes = 32 << 20
	keptTime     = time.Hour
)

// keptKey is tool, run, task or lease, and idempotency key.
type keptKey struct{ tool, run, task, key string }

type kept struct {
	key       keptKey
	digest    [32]byte
	execution *execution         // in progress
	result    *toolv1.ToolResult // of one that has ended
	at        time.Time
	size      int
}

// keptResults has the executions in progress and the results of calls that had a key, so that a repeated call does not act a
// second time.
type keptResults struct {
	entries map[keptKey]*list.Element
	order   *list.List
	bytes   int
}

func newKeptResults() keptResults {
	return keptResults{entries: map[keptKey]*list.Element{}, order: list.New()}
}

func (k *keptResults) find(key keptKey, digest [32]byte, now time.Time) (*kept, error) {
	element := k.entries[key]
	if element == nil {
		return nil, nil
	}
	found, _ := element.Value.(*kept)
	if found.result != nil && now.Sub(found.at) >= keptTime {
		k.forget(key)
		return nil, nil
	}
	if found.digest != digest {
		return nil, archon.NewError(archon.ReasonRequestIDReused,
			"the idempotency key '"+key.key+"' was used before with other arguments")
	}
	return found, nil
}

func (k *keptResults) begin(key keptKey, digest [32]byte, running *execution, now time.Time) {
	k.entries[key] = k.order.PushBack(&kept{key: key, digest: digest, execution: running, at: now})
}

// keep keeps the result in place of the execution, and forgets the oldest ones above the bounds.
func (k *keptResults) keep(key keptKey, result *toolv1.ToolResult, now time.Time) {
	element := k.entries[key]
	if element == nil {
		return
	}
	found, _ := element.Value.(*kept)
	found.execution, found.result, found.at = nil, result, now
	found.size = proto.Size(result) + len(key.tool) + len(key.run) + len(key.task) + len(key.key) + 200
	k.bytes += found.size
	k.order.MoveToBack(element)
	for element := k.order.Front(); element != nil && (len(k.entries) > maxKept || k.bytes > maxKeptBytes); {
		next := element.Next()
		if oldest, _ := element.Value.(*kept); oldest.result != nil {
			k.forget(oldest.key)
		}
		element = next
	}
}

func (k *keptResults) forget(key keptKey) {
	if element := k.entries[key]; element != nil {
		found, _ := element.Value.(*kept)
		k.bytes -= found.size
		delete(k.entries, key)
		k.order.Remove(element)
	}
}
