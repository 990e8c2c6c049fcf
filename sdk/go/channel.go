package archon

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/archon-mesh/archon/sdk/go/internal/security"
)

const (
	// maxReceiveBytes is the largest message that gRPC takes. It stands well above the 4 MiB that members check, so that a
	// larger message is refused with a typed error.
	maxReceiveBytes = 16 << 20
	// defaultTimeout is the time of a unary call whose context has no deadline.
	defaultTimeout = 30 * time.Second
	meshIDKey      = "archon-mesh-id"
)

// Calls alternate between the replicas behind a name; pick_first stays with one address.
const (
	retries = `"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.1s",` +
		`"maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]`
	replicas   = `{"loadBalancingConfig":[{"round_robin":{}}],` + retries + `}`
	oneAddress = `{"loadBalancingConfig":[{"pick_first":{"shuffleAddressList":true}}],` + retries + `}`
)

// Peer is the member of a mesh that a channel is for: a service by its name, or the agents of a role. With TLS, its
// certificate must name it.
type Peer struct {
	Kind   string // service or agent
	Name   string
	Tenant string // the tenant of an agent; empty: the caller's
}

// The services of a mesh.
var (
	PeerOrchestrator = Peer{Kind: "service", Name: "orchestrator"}
	PeerRegistry     = Peer{Kind: "service", Name: "registry"}
	PeerMemory       = Peer{Kind: "service", Name: "memory"}
)

// PeerAgent returns the agents of a role of the caller's tenant.
func PeerAgent(role string) Peer { return Peer{Kind: "agent", Name: role} }

func (p Peer) audience() string {
	if p.Kind == "agent" {
		return security.Agents
	}
	return security.Services
}

// ChannelOption changes how a channel connects.
type ChannelOption func(*channelOptions)

type channelOptions struct {
	credentials Credentials
	folder      string
	oneReplica  bool
	grpc        []grpc.DialOption
}

// WithCredentials presents credentials in place of those of the environment (ARCHON_TOKEN, ARCHON_TOKEN_FILE, or the mesh on
// this machine).
func WithCredentials(credentials Credentials) ChannelOption {
	return func(o *channelOptions) { o.credentials = credentials }
}

// WithCertificate encrypts the connection with the certificate in a folder (tls.crt, tls.key, ca.crt) in place of the one of
// the environment (ARCHON_TLS).
func WithCertificate(folder string) ChannelOption {
	return func(o *channelOptions) { o.folder = folder }
}

// WithOneReplica sends all calls to one of the replicas behind a name, chosen at random, in place of each in turn.
func WithOneReplica() ChannelOption { return func(o *channelOptions) { o.oneReplica = true } }

// WithGRPC adds options of gRPC, such as interceptors.
func WithGRPC(options ...grpc.DialOption) ChannelOption {
	return func(o *channelOptions) { o.grpc = append(o.grpc, options...) }
}

// Channel is a connection to a member of a mesh, made at the first call; close it. Calls carry the credentials of the
// channel, the deadline and the trace of their context, and on whose behalf they are made; every error that they return is
// an *Error.
type Channel struct {
	target      string
	peer        Peer
	credentials Credentials
	folder      *security.CertificateFolder
	options     []grpc.DialOption

	mu      sync.Mutex
	current *connection
	earlier []*connection // with an earlier certificate, until their last call has ended
	closed  bool
}

type connection struct {
	*grpc.ClientConn
	madeOf *security.Certificate
	calls  int
}

// Connect returns a channel to a peer at host:port.
func Connect(target string, peer Peer, options ...ChannelOption) (*Channel, error) {
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return nil, NewError(ReasonInvalidArgument, "invalid address "+quoted(target)+": expected host:port",
			WithViolation("target", "must be host:port"))
	}
	chosen := &channelOptions{}
	for _, option := range options {
		option(chosen)
	}
	c := &Channel{target: target, peer: peer, credentials: chosen.credentials}
	if c.credentials == nil {
		if c.credentials, err = credentialsFor(target); err != nil {
			return nil, err
		}
	}
	if chosen.folder != "" {
		c.folder = security.NewCertificateFolder(chosen.folder)
		_, err = c.folder.Read()
	} else {
		c.folder, err = security.FolderFor(target, host)
	}
	if err != nil {
		return nil, NewError(ReasonFailedPrecondition, err.Error())
	}
	config := replicas
	if chosen.oneReplica || net.ParseIP(host) != nil {
		config = oneAddress
	}
	c.options = append([]grpc.DialOption{
		grpc.WithNoProxy(), // a mesh is never behind a proxy
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(config),
		grpc.WithResolvers(nameBuilder{}),
		grpc.WithUserAgent("archon-go"),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxReceiveBytes), grpc.MaxCallSendMsgSize(maxReceiveBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond,
			},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepaliveOf(peer)),
	}, chosen.grpc...)
	if peer.Kind == "agent" {
		c.options = append(c.options, grpc.WithDisableRetry()) // a call of a tool that was sent may have acted
	}
	c.current, err = c.dial()
	return c, err
}

// keepaliveOf returns the pings of a connection: a service is asked every 10 seconds, the shortest time that grpc-go knows;
// an agent once a minute, because a server with default settings closes connections that are pinged more often.
func keepaliveOf(peer Peer) keepalive.ClientParameters {
	if peer.Kind == "agent" {
		return keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: 20 * time.Second}
	}
	return keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second, PermitWithoutStream: true}
}

func (c *Channel) dial() (*connection, error) {
	made := &connection{}
	options := c.options
	target := nearest(c.target)
	if c.folder != nil {
		own, err := c.folder.Read()
		if err != nil {
			return nil, NewError(ReasonFailedPrecondition, err.Error())
		}
		made.madeOf = own
		target = resolvable(c.target)
		options = append(options[:len(options):len(options)],
			grpc.WithTransportCredentials(security.ClientCredentials(own, c.expected(own))))
	} else {
		options = append(options[:len(options):len(options)], grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, NewError(ReasonInvalidArgument, "invalid address "+quoted(c.target)+": "+err.Error())
	}
	made.ClientConn = conn
	return made, nil
}

// expected returns the name that the certificate of the other side must have: the peer that the caller wants counts, not
// the address. Services are of the default tenant.
func (c *Channel) expected(own *security.Certificate) string {
	tenant := c.peer.Tenant
	if c.peer.Kind == "service" {
		tenant = DefaultTenant
	} else if tenant == "" {
		tenant = own.ID.Tenant
	}
	return security.SpiffeID{Mesh: own.ID.Mesh, Tenant: tenant, Kind: c.peer.Kind, Name: c.peer.Name}.DNSName()
}

// take returns the connection for a call, made anew if the certificate has changed, and a function that ends the call.
func (c *Channel) take() (*connection, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, NewError(ReasonCancelled, "the channel is closed")
	}
	if c.folder == nil {
		return c.current, func() {}, nil
	}
	if own, err := c.folder.Read(); err == nil && own != c.current.madeOf {
		if made, err := c.dial(); err == nil {
			c.earlier = append(c.earlier, c.current)
			c.current = made
			c.closeIdle()
		}
	}
	taken := c.current
	taken.calls++
	return taken, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		taken.calls--
		c.closeIdle()
	}, nil
}

func (c *Channel) closeIdle() {
	kept := c.earlier[:0]
	for _, each := range c.earlier {
		if each.calls == 0 {
			_ = each.Close()
		} else {
			kept = append(kept, each)
		}
	}
	c.earlier = kept
}

// Close closes the connection; calls in progress end. Idempotent.
func (c *Channel) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	for _, each := range c.earlier {
		_ = each.Close()
	}
	return c.current.Close()
}

// Target returns the address of the channel.
func (c *Channel) Target() string { return c.target }

func (c *Channel) outgoing(ctx context.Context) (context.Context, error) {
	presented, err := c.presented(ctx)
	if err != nil {
		return nil, err
	}
	pairs := make([]string, 0, 2*len(presented)+4)
	for key, value := range presented {
		pairs = append(pairs, key, value)
	}
	if traceparent, tracestate := TraceOf(ctx); traceparent != "" {
		pairs = append(pairs, "traceparent", traceparent)
		if tracestate != "" {
			pairs = append(pairs, "tracestate", tracestate)
		}
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...), nil
}

func (c *Channel) presented(ctx context.Context) (map[string]string, error) {
	var presented map[string]string
	var err error
	if source, ok := c.credentials.(presenter); ok {
		presented, err = source.present(ctx, c.peer.audience())
	} else {
		presented, err = c.credentials.Metadata(ctx)
	}
	if err != nil || len(presented) > 0 || c.folder == nil {
		return presented, err
	}
	own, err := c.folder.Read()
	if err != nil || !security.ActsForOthers(own.ID.Kind) {
		return nil, nil //nolint:nilerr // the connection reports a certificate that cannot be used
	}
	presented = map[string]string{}
	addOnBehalf(ctx, presented) // the certificate of the connection speaks for the caller
	return presented, nil
}

// Invoke makes a unary call (grpc.ClientConnInterface).
func (c *Channel) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	ctx, cancel := withDefault(ctx, defaultTimeout)
	defer cancel()
	ctx, err := c.outgoing(ctx)
	if err != nil {
		return err
	}
	conn, release, err := c.take()
	if err != nil {
		return err
	}
	defer release()
	return translated(conn.Invoke(ctx, method, request, reply, options...))
}

// NewStream begins a streaming call (grpc.ClientConnInterface). Its context has no deadline by default.
func (c *Channel) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, err := c.outgoing(ctx)
	if err != nil {
		return nil, err
	}
	conn, release, err := c.take()
	if err != nil {
		return nil, err
	}
	release = sync.OnceFunc(release)
	options = append(options[:len(options):len(options)], grpc.OnFinish(func(error) { release() }))
	stream, err := conn.NewStream(ctx, desc, method, options...)
	if err != nil {
		release()
		return nil, translated(err)
	}
	return translatedStream{stream}, nil
}

type translatedStream struct{ grpc.ClientStream }

// RecvMsg returns typed errors, and io.EOF at the end.
func (s translatedStream) RecvMsg(message any) error {
	return translated(s.ClientStream.RecvMsg(message))
}

// SendMsg returns typed errors, and io.EOF if the stream has ended.
func (s translatedStream) SendMsg(message any) error {
	return translated(s.ClientStream.SendMsg(message))
}

func translated(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if e := AsError(err); e != nil {
		return e
	}
	st, ok := status.FromError(err)
	if !ok {
		return ToError(err, "")
	}
	e := FromStatus(st)
	if e.Code == codes.Unavailable {
		e.Message += hint(e.Message)
	}
	return e
}
