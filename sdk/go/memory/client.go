// Package memory is the client of the memory service: the shared memory, through which roles see each other's answers, and
// the working memory, the values that the tasks of a run share. Items and values are the messages of the contract
// (archon.api.memory.v1).
package memory

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	memoryv1 "github.com/archon-mesh/archon/sdk/go/api/memory/v1"
)

const callTimeout = 10 * time.Second

// Client is a connection to the memory service. It is safe for concurrent use.
type Client struct {
	channel *archon.Channel
	graph   memoryv1.MemoryGraphServiceClient
	working memoryv1.WorkingMemoryServiceClient
}

// Connect returns a client of the memory service at host:port. Close it.
func Connect(target string, options ...archon.ChannelOption) (*Client, error) {
	channel, err := archon.Connect(target, archon.PeerMemory, options...)
	if err != nil {
		return nil, err
	}
	return &Client{
		channel, memoryv1.NewMemoryGraphServiceClient(channel), memoryv1.NewWorkingMemoryServiceClient(channel),
	}, nil
}

// Close closes the connection. Idempotent.
func (c *Client) Close() error { return c.channel.Close() }

// Scope returns the memory of a session, or of a run without one, by its id.
func (c *Client) Scope(id string) *Scope { return &Scope{c, id} }

// Scope is the memory of a session, or of a run without one.
type Scope struct {
	client *Client
	id     string
}

// Pull returns the items that a role may see, in dependency order: those of its direct predecessors, or with allAncestors
// those of all ancestors.
func (s *Scope) Pull(ctx context.Context, role string, allAncestors bool) ([]*memoryv1.MemoryItem, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := s.client.graph.PullItems(ctx, &memoryv1.PullItemsRequest{Scope: s.id, Role: role, AllAncestors: allAncestors})
	return response.GetItems(), err
}

// Publish publishes items, all of them or none. The orchestrator publishes the answers of runs by itself.
func (s *Scope) Publish(ctx context.Context, requestID string, items ...*memoryv1.PublishItem) ([]*memoryv1.Published, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := s.client.graph.PublishItems(ctx,
		&memoryv1.PublishItemsRequest{Scope: s.id, Items: items, RequestId: requestID})
	return response.GetPublished(), err
}

// Search returns the items that answer a query, by meaning and by words, best first: at most limit (0: 5), of those that a
// role may see, or of all if that is empty.
func (s *Scope) Search(ctx context.Context, query, role string, limit int) ([]*memoryv1.FoundItem, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := s.client.graph.SearchItems(ctx,
		&memoryv1.SearchItemsRequest{Scope: s.id, Query: query, Role: role, Limit: int32(limit)})
	return response.GetItems(), err
}

// Graph returns the graph of roles with the published items.
func (s *Scope) Graph(ctx context.Context) (*memoryv1.ScopeGraph, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := s.client.graph.GetGraph(ctx, &memoryv1.GetGraphRequest{Scope: s.id})
	return response.GetGraph(), err
}

// Watch yields the items that exist, then each publish, until the stream ends.
func (s *Scope) Watch(ctx context.Context) iter.Seq2[*memoryv1.WatchItemsResponse, error] {
	return func(yield func(*memoryv1.WatchItemsResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.client.graph.WatchItems(ctx, &memoryv1.WatchItemsRequest{Scope: s.id})
		follow(stream, err, yield)
	}
}

// Clear removes the items. Versions continue from where they were.
func (s *Scope) Clear(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := s.client.graph.ClearItems(ctx, &memoryv1.ClearItemsRequest{Scope: s.id})
	return int(response.GetCleared()), err
}

// Get returns a value of the working memory; nil if there is none.
func (s *Scope) Get(ctx context.Context, key string) (*memoryv1.WorkingValue, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := s.client.working.GetValue(ctx, &memoryv1.GetValueRequest{Scope: s.id, Key: key})
	if errors.Is(err, archon.ErrNotFound) {
		return nil, nil
	}
	return response.GetValue(), err
}

// Set writes a value, which is encoded as JSON, and returns its version.
func (s *Scope) Set(ctx context.Context, key string, value any) (int64, error) {
	return s.set(ctx, key, value, nil)
}

// SetIf writes a value if the current one has a version (0: there is none). It fails with CONFLICT otherwise.
func (s *Scope) SetIf(ctx context.Context, key string, value any, version int64) (int64, error) {
	return s.set(ctx, key, value, &version)
}

func (s *Scope) set(ctx context.Context, key string, value any, version *int64) (int64, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return 0, archon.NewError(archon.ReasonInvalidArgument, "the value is not JSON: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := s.client.working.SetValue(ctx,
		&memoryv1.SetValueRequest{Scope: s.id, Key: key, ValueJson: string(text), ExpectedVersion: version})
	return response.GetValue().GetVersion(), err
}

// List returns the values of the working memory whose keys begin with a prefix.
func (s *Scope) List(ctx context.Context, prefix string) ([]*memoryv1.WorkingValue, error) {
	request := &memoryv1.ListValuesRequest{Scope: s.id, Prefix: prefix}
	var values []*memoryv1.WorkingValue
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		response, err := s.client.working.ListValues(call, request)
		cancel()
		if err != nil {
			return nil, err
		}
		values = append(values, response.GetValues()...)
		if request.PageToken = response.GetNextPageToken(); request.PageToken == "" {
			return values, nil
		}
	}
}

// Delete deletes a value, and returns whether there was one.
func (s *Scope) Delete(ctx context.Context, key string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := s.client.working.DeleteValue(ctx, &memoryv1.DeleteValueRequest{Scope: s.id, Key: key})
	return response.GetDeleted(), err
}

// WatchValues yields the values whose keys begin with a prefix, then each change, until the stream ends.
func (s *Scope) WatchValues(ctx context.Context, prefix string) iter.Seq2[*memoryv1.WatchValuesResponse, error] {
	return func(yield func(*memoryv1.WatchValuesResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.client.working.WatchValues(ctx, &memoryv1.WatchValuesRequest{Scope: s.id, Prefix: prefix})
		follow(stream, err, yield)
	}
}

// receiver is a stream of a server.
type receiver[M any] interface{ Recv() (*M, error) }

func follow[M any](stream receiver[M], err error, yield func(*M, error) bool) {
	for err == nil {
		var message *M
		if message, err = stream.Recv(); err == nil && !yield(message, nil) {
			return
		}
	}
	if !errors.Is(err, io.EOF) {
		yield(nil, err)
	}
}
