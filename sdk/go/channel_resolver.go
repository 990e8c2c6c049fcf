package archon

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"
)

const (
	nameScheme = "archon-name"
	// gRPC's own resolver looks a name up again after 30 seconds at the earliest: too late for a pod that has got another
	// address.
	leastLookups  = 2 * time.Second
	lookupTimeout = 5 * time.Second
)

// nameBuilder resolves host:port, and again soon after a connection has failed.
type nameBuilder struct{}

func (nameBuilder) Scheme() string { return nameScheme }

func (nameBuilder) Build(target resolver.Target, to resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	host, port, err := net.SplitHostPort(target.Endpoint())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &nameResolver{host: host, port: port, to: to, cancel: cancel, now: make(chan struct{}, 1)}
	r.done.Add(1)
	go r.keep(ctx)
	return r, nil
}

type nameResolver struct {
	host, port string
	to         resolver.ClientConn
	cancel     context.CancelFunc
	now        chan struct{}
	done       sync.WaitGroup
}

// ResolveNow asks for another lookup.
func (r *nameResolver) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case r.now <- struct{}{}:
	default:
	}
}

// Close ends the lookups.
func (r *nameResolver) Close() {
	r.cancel()
	r.done.Wait()
}

func (r *nameResolver) keep(ctx context.Context) {
	defer r.done.Done()
	for {
		began := time.Now()
		failed := r.lookup(ctx)
		if ctx.Err() != nil {
			return
		}
		if !failed {
			select {
			case <-r.now:
			case <-ctx.Done():
				return
			}
		}
		timer := time.NewTimer(time.Until(began.Add(leastLookups)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// lookup returns true if it has failed.
func (r *nameResolver) lookup(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	hosts, err := net.DefaultResolver.LookupHost(ctx, r.host)
	if err != nil {
		r.to.ReportError(err)
		return true
	}
	endpoints := make([]resolver.Endpoint, len(hosts))
	for i, host := range hosts {
		endpoints[i].Addresses = []resolver.Address{{Addr: net.JoinHostPort(host, r.port)}}
	}
	// An error of UpdateState asks for another lookup, which ResolveNow does in any case.
	_ = r.to.UpdateState(resolver.State{Endpoints: endpoints})
	return false
}
