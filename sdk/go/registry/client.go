// Package registry is the client of the registry: it keeps registrations alive, resolves instances of roles, and watches the
// graph of roles. Registrations and graphs are the messages of the contract (archon.api.registry.v1).
package registry

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"math"
	mathrand "math/rand/v2"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	commonv1 "github.com/archon-mesh/archon/sdk/go/api/common/v1"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
)

const (
	callTimeout     = 6 * time.Second  // of one call; the registry gives up on its store earlier
	registerTimeout = 10 * time.Second // that Register waits before it continues in the background
	closeTimeout    = 2 * time.Second  // of one DeregisterInstance; if it fails the lease expires
	page            = 1_000
)

// Client is a connection to the registry. It is safe for concurrent use. Its registrations are its own: other clients can
// neither change nor end them.
type Client struct {
	channel *archon.Channel
	stub    registryv1.RegistryServiceClient
	token   string
}

// Connect returns a client of the registry at host:port. Close it.
func Connect(target string, options ...archon.ChannelOption) (*Client, error) {
	channel, err := archon.Connect(target, archon.PeerRegistry, options...)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 24)
	if _, err := rand.Read(secret); err != nil {
		return nil, archon.ToError(err, "")
	}
	return &Client{channel, registryv1.NewRegistryServiceClient(channel), base64.RawURLEncoding.EncodeToString(secret)}, nil
}

// Target returns the address of the registry.
func (c *Client) Target() string { return c.channel.Target() }

// Close closes the connection. Close the handles of registrations before.
func (c *Client) Close() error { return c.channel.Close() }

// Query is what Resolve asks for: the instances of Role, or with Capability, of a Version (which may end in .*; empty: any)
// that carry all Tags.
type Query struct {
	Role       string
	Capability string
	Version    string
	Tags       map[string]string
}

// Resolve returns live instances, newest version first; none if no instance matches version and tags. It fails with
// UNKNOWN_ROLE or UNKNOWN_CAPABILITY if there is no live instance at all.
func (c *Client) Resolve(ctx context.Context, query Query) ([]*registryv1.Registration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := &registryv1.ResolveInstancesRequest{Version: query.Version, Tags: query.Tags}
	if query.Role != "" {
		request.Target = &registryv1.ResolveInstancesRequest_Role{Role: query.Role}
	} else {
		request.Target = &registryv1.ResolveInstancesRequest_Capability{Capability: query.Capability}
	}
	answer, err := c.stub.ResolveInstances(ctx, request)
	return answer.GetInstances(), err
}

// List returns all live instances, of a role or, if that is empty, of all roles, sorted by role and instance id.
func (c *Client) List(ctx context.Context, role string) ([]*registryv1.Registration, error) {
	var instances []*registryv1.Registration
	token := ""
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		answer, err := c.stub.ListInstances(call,
			&registryv1.ListInstancesRequest{PageSize: page, PageToken: token, Role: role})
		cancel()
		if err != nil {
			return nil, err
		}
		instances = append(instances, answer.GetInstances()...)
		if token = answer.GetNextPageToken(); token == "" {
			return instances, nil
		}
	}
}

// Graph returns the current graph of roles.
func (c *Client) Graph(ctx context.Context) (*registryv1.Graph, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.stub.GetGraph(ctx, &registryv1.GetGraphRequest{})
	return answer.GetGraph(), err
}

// Pin pins edges, all or none: they stay whatever instances are live. It fails with CYCLE, with the path in the metadata.
func (c *Client) Pin(ctx context.Context, edges ...*commonv1.Edge) (*registryv1.Graph, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.stub.PinEdges(ctx, &registryv1.PinEdgesRequest{Edges: edges})
	return answer.GetGraph(), err
}

// Unpin unpins edges; edges that are not pinned are ignored.
func (c *Client) Unpin(ctx context.Context, edges ...*commonv1.Edge) (*registryv1.Graph, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.stub.UnpinEdges(ctx, &registryv1.UnpinEdgesRequest{Edges: edges})
	return answer.GetGraph(), err
}

// Watch yields a snapshot of instances and edges, or the changes since a revision (0: none), then every change. A large
// change comes in several messages, of which only the last has a revision. It does not end by itself: after any outage it
// reconnects and resumes. It ends with the error of the context, or one that trying again does not help.
func (c *Client) Watch(ctx context.Context, fromRevision int64) iter.Seq2[*registryv1.WatchResponse, error] {
	return func(yield func(*registryv1.WatchResponse, error) bool) {
		for attempt := 0; ; attempt++ {
			err := c.watch(ctx, &fromRevision, func(message *registryv1.WatchResponse) bool {
				attempt = 0
				return yield(message, nil)
			})
			if err == nil {
				return
			}
			if failed := archon.ToError(err, ""); ctx.Err() != nil || !IsTransient(failed) {
				yield(nil, failed)
				return
			}
			if !sleep(ctx, backoff(attempt, archon.ToError(err, ""), time.Second)) {
				yield(nil, archon.ToError(ctx.Err(), ""))
				return
			}
		}
	}
}

// watch returns nil if yield has returned false.
func (c *Client) watch(ctx context.Context, revision *int64, yield func(*registryv1.WatchResponse) bool) error {
	ctx, cancel := context.WithCancel(archon.WithMeshID(ctx))
	defer cancel()
	stream, err := c.stub.Watch(ctx, &registryv1.WatchRequest{FromRevision: *revision})
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return archon.NewError(archon.ReasonUnavailable, "the registry has ended the watch")
		}
		if err != nil {
			return err
		}
		if message.GetRevision() > 0 {
			*revision = message.GetRevision()
		}
		if !yield(message) {
			return nil
		}
	}
}

// IsTransient reports whether trying again after an error may help.
func IsTransient(err *archon.Error) bool {
	for _, code := range []archon.Code{
		archon.ErrUnavailable, archon.ErrDeadlineExceeded, archon.ErrResourceExhausted, archon.ErrAborted,
		archon.ErrInternal, archon.ErrUnknown, archon.ErrCancelled,
	} {
		if err.Is(code) {
			return true
		}
	}
	for _, reason := range []archon.Reason{
		archon.ReasonLeaseExpired, archon.ReasonTokenExpired, archon.ReasonCertificateRefused,
	} {
		if err.Is(reason) {
			return true
		}
	}
	return false
}

// backoff returns the time to wait after an attempt (from 0): exponential with jitter, about as long as the error asks for.
func backoff(attempt int, err *archon.Error, longest time.Duration) time.Duration {
	var asked time.Duration
	if err != nil && err.RetryDelay != nil {
		asked = min(longest, *err.RetryDelay)
	}
	wait := min(float64(longest), float64(100*time.Millisecond)*math.Pow(2, float64(min(attempt, 10))))
	return time.Duration(max(float64(asked), wait) * (0.5 + mathrand.Float64()/2))
}

func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
