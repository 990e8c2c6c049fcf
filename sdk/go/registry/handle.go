package registry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	archon "github.com/archon-mesh/archon/sdk/go"
	registryv1 "github.com/archon-mesh/archon/sdk/go/api/registry/v1"
)

// Registered is called after each registration, with the public keys of the mesh (a JSON Web Key Set; empty if it needs no
// tokens) and the tenant of the instance.
type Registered func(keysJSON, tenant string)

// Handle is a live registration, from Client.Register: its lease is renewed every third of its time, and it is registered
// again whenever the registry has lost it. Close it when the process stops serving.
type Handle struct {
	client       *Client
	onRegistered Registered
	cancel       context.CancelFunc
	done         chan struct{}
	invalid      chan struct{} // closed once the registry has refused the content as invalid
	closing      sync.Once

	mu         sync.Mutex
	content    *registryv1.Registration
	changed    chan struct{} // one token if the content is to be registered anew
	registered bool
	lastError  *archon.Error
	news       chan struct{} // closed at each answer of the registry
}

// Register registers an instance, and keeps the registration alive until the handle is closed.
//
// It fails with errors that trying again does not help: INVALID_ARGUMENT, CONFLICT (the instance id belongs to another role
// or owner), PERMISSION_DENIED. If the registry is unreachable for 10 seconds, it returns a handle that is not registered
// yet and continues in the background.
func (c *Client) Register(
	ctx context.Context, registration *registryv1.Registration, onRegistered Registered,
) (*Handle, error) {
	content, _ := proto.Clone(registration).(*registryv1.Registration)
	own, cancel := context.WithCancel(context.Background())
	h := &Handle{
		client: c, onRegistered: onRegistered, cancel: cancel, done: make(chan struct{}), invalid: make(chan struct{}),
		content: content, changed: make(chan struct{}, 1), news: make(chan struct{}),
	}
	go h.keep(own)
	if err := h.firstAnswer(ctx, registerTimeout); err != nil {
		cancel()
		<-h.done
		return nil, err
	}
	return h, nil
}

// Registered reports whether the registry is known to hold the registration.
func (h *Handle) Registered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.registered
}

// Err returns why the last attempt to register failed; nil if it did not.
func (h *Handle) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lastError == nil {
		return nil
	}
	return h.lastError
}

// Invalid returns a channel that is closed once the registry has refused the content as invalid: no further attempt succeeds
// with it.
func (h *Handle) Invalid() <-chan struct{} { return h.invalid }

// Update registers other content under the same instance id. If the registry refuses it, the former content stays
// registered.
func (h *Handle) Update(ctx context.Context, registration *registryv1.Registration) error {
	content, _ := proto.Clone(registration).(*registryv1.Registration)
	h.mu.Lock()
	before := h.content
	content.InstanceId = before.GetInstanceId()
	h.content, h.registered, h.lastError = content, false, nil
	h.mu.Unlock()
	h.lost()
	err := h.firstAnswer(ctx, registerTimeout)
	if err != nil {
		h.mu.Lock()
		h.content = before
		h.mu.Unlock()
		h.lost()
	}
	return err
}

// Close stops renewing and deregisters, within about two seconds; if the registry is unreachable the lease expires.
// Idempotent.
func (h *Handle) Close() {
	h.closing.Do(func() {
		h.cancel()
		<-h.done
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		request := &registryv1.DeregisterInstanceRequest{InstanceId: h.content.GetInstanceId(), Token: h.client.token}
		if _, err := h.client.stub.DeregisterInstance(ctx, request); err != nil {
			slog.Info("the instance could not be deregistered, its lease will expire",
				"instance", h.content.GetInstanceId(), "registry", h.client.Target(), "error", err)
		}
	})
}

// firstAnswer waits until the registry holds the registration, and returns an error that is not transient.
func (h *Handle) firstAnswer(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		h.mu.Lock()
		registered, failed, news := h.registered, h.lastError, h.news
		h.mu.Unlock()
		if registered {
			return nil
		}
		if failed != nil && !IsTransient(failed) {
			return failed
		}
		select {
		case <-news:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return archon.ToError(ctx.Err(), "")
		}
	}
}

// lost has the content registered anew.
func (h *Handle) lost() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// keep registers and renews until the context ends.
func (h *Handle) keep(ctx context.Context) {
	defer close(h.done)
	logged := ""
	for attempt := 0; ctx.Err() == nil; {
		select {
		case <-h.changed:
		default:
		}
		ttl, err := h.register(ctx)
		if err == nil {
			if attempt > 0 {
				slog.Info("the instance is registered", "instance", h.content.GetInstanceId(), "registry", h.client.Target())
			}
			attempt, logged = 0, ""
			h.renew(ctx, ttl)
			continue
		}
		if attempt == 0 || (!IsTransient(err) && err.Error() != logged) {
			slog.Warn("the instance is not registered, trying again",
				"instance", h.content.GetInstanceId(), "registry", h.client.Target(), "error", err)
			logged = err.Error()
		}
		wait := time.NewTimer(backoff(attempt, err, 2*time.Second))
		select {
		case <-wait.C:
		case <-h.changed:
		case <-ctx.Done():
		}
		wait.Stop()
		attempt++
	}
	h.note(false, nil)
}

func (h *Handle) register(ctx context.Context) (time.Duration, *archon.Error) {
	h.mu.Lock()
	content := h.content
	h.mu.Unlock()
	call, cancel := context.WithTimeout(archon.WithMeshID(ctx), callTimeout)
	defer cancel()
	answer, err := h.client.stub.RegisterInstance(call,
		&registryv1.RegisterInstanceRequest{Registration: content, Token: h.client.token})
	if err != nil {
		failed := archon.ToError(err, "")
		if ctx.Err() == nil {
			h.note(false, failed)
		}
		return 0, failed
	}
	for _, refused := range answer.GetRefusedEdges() {
		slog.Warn("an edge is refused because it would close a cycle",
			"instance", content.GetInstanceId(), "cycle", refused.GetCycle())
	}
	if h.onRegistered != nil {
		h.onRegistered(answer.GetKeysJson(), answer.GetRegistration().GetTenant())
	}
	h.mu.Lock()
	current := h.content == content
	h.mu.Unlock()
	if current {
		h.note(true, nil)
	}
	ttl := answer.GetTtl().AsDuration()
	if ttl <= 0 {
		ttl = max(time.Second, content.GetTtl().AsDuration())
	}
	return ttl, nil
}

func (h *Handle) note(registered bool, err *archon.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.registered, h.lastError = registered, err
	if err != nil && err.Is(archon.ErrInvalidArgument) {
		select {
		case <-h.invalid:
		default:
			close(h.invalid)
		}
	}
	close(h.news)
	h.news = make(chan struct{})
}

// renew keeps the lease alive on a stream, which is opened again after any outage. It returns if the lease has expired, the
// content has changed, or the context has ended.
func (h *Handle) renew(ctx context.Context, ttl time.Duration) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		began := time.Now()
		again, err := h.renewOnOneStream(ctx, ttl, attempt > 0)
		if again || ctx.Err() != nil {
			return
		}
		slog.Info("the keepalive stream broke, opening another", "instance_id", h.content.GetInstanceId(), "error", err)
		if time.Since(began) > 5*time.Second {
			attempt = 0
		}
		if !sleep(ctx, backoff(attempt, nil, 500*time.Millisecond)) {
			return
		}
	}
}

// renewOnOneStream returns true if the instance is to be registered anew, else the error that has ended the stream.
func (h *Handle) renewOnOneStream(ctx context.Context, ttl time.Duration, atOnce bool) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stream registryv1.RegistryService_KeepAliveClient
	request := &registryv1.KeepAliveRequest{
		InstanceIds: []string{h.content.GetInstanceId()}, Tokens: []string{h.client.token},
	}
	wait := ttl / 3
	if atOnce {
		wait = 0
	}
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-h.changed:
			timer.Stop()
			return true, nil
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		}
		late := time.AfterFunc(max(time.Second, ttl/3), cancel)
		if stream == nil {
			var err error
			if stream, err = h.client.stub.KeepAlive(ctx); err != nil {
				late.Stop()
				return false, err
			}
		}
		answer, err := exchange(stream, request)
		late.Stop()
		if err != nil {
			return false, err
		}
		for _, lease := range answer.GetLeases() {
			if lease.GetInstanceId() == h.content.GetInstanceId() && lease.GetExpired() {
				return true, nil
			}
		}
		wait = ttl / 3
	}
}

func exchange(
	stream registryv1.RegistryService_KeepAliveClient, request *registryv1.KeepAliveRequest,
) (*registryv1.KeepAliveResponse, error) {
	if err := stream.Send(request); err != nil {
		if _, received := stream.Recv(); received != nil {
			err = received
		}
		return nil, err
	}
	return stream.Recv()
}
