package tools

import (
	"container/list"
	"context"
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
	toolv1 "github.com/archon-mesh/archon/sdk/go/api/tool/v1"
)

const (
	maxPeers         = 64              // instances that a client stays connected with
	freshTime        = 5 * time.Second // for which a list of the registry answers further questions
	findTimeout      = 5 * time.Second
	leaseCallTimeout = 5 * time.Second
	revokeTimeout    = 2 * time.Second
	answerTime       = 2 * time.Second // that an owner has to report that a call exceeded its timeout
	maxProgressTexts = 1_000           // of one call that are passed on
)

// Client finds, leases and executes the tools that instances of the mesh share. It is safe for concurrent use. Close it.
type Client struct {
	registry   Lister
	instanceID string

	mu     sync.Mutex
	peers  map[string]*list.Element
	order  *list.List // of peers, the one used least recently first
	listed map[string]listing
}

type listing struct {
	at        time.Time
	instances []*registryv1.Registration
}

// NewClient returns a client that finds tools in a registry. instanceID names this process in the logs of owners.
func NewClient(registry Lister, instanceID string) *Client {
	return &Client{
		registry: registry, instanceID: instanceID, peers: map[string]*list.Element{}, order: list.New(),
		listed: map[string]listing{},
	}
}

// Close closes all connections. Leases that were not released expire.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for element := c.order.Front(); element != nil; element = element.Next() {
		closed, _ := element.Value.(*peer)
		_ = closed.channel.Close()
	}
	c.peers, c.order = map[string]*list.Element{}, list.New()
	return nil
}

// Find returns the shared tools of live instances, one for each instance, best first: from a list of the registry that is at
// most 5 seconds old.
func (c *Client) Find(ctx context.Context, query Query) ([]Found, error) {
	c.mu.Lock()
	for _, role := range []string{query.Role, ""} {
		known, ok := c.listed[role]
		if ok && !query.Fresh && time.Since(known.at) < freshTime {
			c.mu.Unlock()
			return sharedBy(known.instances, query), nil
		}
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	instances, err := c.registry.List(ctx, query.Role)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.listed) >= maxPeers {
		clear(c.listed)
	}
	c.listed[query.Role] = listing{time.Now(), instances}
	return sharedBy(instances, query), nil
}

// Lease returns a tool to be leased: of the role that is named, or of the one with the best tool of this name. The lease is
// taken at the first call, for the task that the context serves, and renewed as needed; Release ends it.
func (c *Client) Lease(ctx context.Context, name, role string) *Leased {
	call := archon.CallOf(ctx)
	return &Leased{client: c, name: name, role: role, task: taskRef(call.TaskID, call.RunID, call.Attempt), duration: LeaseTime}
}

// peer is the connection to an instance that shares tools.
type peer struct {
	address string
	channel *archon.Channel
	stub    toolv1.ToolServiceClient
}

func (c *Client) peer(found Found) (*peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.peers[found.Address]; ok {
		c.order.MoveToBack(element)
		known, _ := element.Value.(*peer)
		return known, nil
	}
	channel, err := archon.Connect(found.Address, archon.PeerAgent(found.Role))
	if err != nil {
		return nil, err
	}
	made := &peer{found.Address, channel, toolv1.NewToolServiceClient(channel)}
	c.peers[found.Address] = c.order.PushBack(made)
	if len(c.peers) > maxPeers {
		element := c.order.Front()
		oldest, _ := element.Value.(*peer)
		c.order.Remove(element)
		delete(c.peers, oldest.address)
		_ = oldest.channel.Close()
	}
	return made, nil
}

func (p *peer) lease(ctx context.Context, name string, task *commonv1.TaskRef, instanceID string, d time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseCallTimeout)
	defer cancel()
	answer, err := p.stub.LeaseTool(ctx, &toolv1.LeaseToolRequest{
		ToolName: name, Duration: durationpb.New(d), Task: task, InstanceId: instanceID,
	})
	return answer.GetLease().GetLeaseId(), err
}

// execute executes a call, and returns its result, or the error of ExecuteTool.
func (p *peer) execute(ctx context.Context, request *toolv1.ExecuteToolRequest, left time.Duration, progress func(string)) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, left+answerTime)
	defer cancel()
	if traceparent, tracestate := archon.TraceOf(ctx); traceparent != "" {
		request.Trace = &commonv1.TraceContext{Traceparent: traceparent, Tracestate: tracestate}
	}
	stream, err := p.stub.ExecuteTool(ctx, request)
	if err != nil {
		return Result{}, err
	}
	for told := 0; ; {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return Result{}, archon.NewError(archon.ReasonUnknown, "the owner of the tool ended the call without a result",
				archon.WithKind(archon.KindToolCrash))
		}
		if err != nil {
			return Result{}, err
		}
		if result := event.GetResult(); result != nil {
			return resultOf(result)
		}
		if text := event.GetProgress(); text != "" && progress != nil && told < maxProgressTexts && utf8.ValidString(text) {
			told++
			progress(cut(text, maxProgressTexts))
		}
	}
}
