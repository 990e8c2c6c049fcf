// Package server is the gRPC server of an agent: typed errors, callers that are let in by token or certificate, health,
// reflection, and graceful shutdown.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/internal/frames"
	"github.com/archon-mesh/archon/sdk/go/internal/security"
)

const (
	maxReceiveBytes  = 16 << 20
	maxMetadataBytes = 32 << 10
	stopTime         = 2 * time.Second // that handlers of calls have to end once their connections are closed
	checkInterval    = time.Second     // between two looks at the credentials of open streams
)

// Server serves on host:port.
type Server struct {
	grpc     *grpc.Server
	health   *health.Server
	plain    *grpc.Server // answers health checks without TLS (ARCHON_HEALTH_PORT)
	auth     *authenticator
	listener net.Listener
	serving  sync.WaitGroup
	stop     chan struct{}
	stopping sync.Once
	names    []string

	mu   sync.Mutex
	open map[*openStream]struct{}
}

type openStream struct {
	who    *principal
	cancel context.CancelCauseFunc
}

// Start binds the port and serves; register adds the services. Without TLS it listens on loopback addresses alone, unless
// ARCHON_INSECURE is set.
func Start(host string, port int, keys *LearntKeys, register func(grpc.ServiceRegistrar)) (*Server, error) {
	certificate, err := security.OwnFolder()
	if err != nil {
		return nil, archon.NewError(archon.ReasonFailedPrecondition, err.Error())
	}
	if certificate == nil && !security.IsLoopback(host) {
		if os.Getenv("ARCHON_INSECURE") == "" {
			return nil, archon.NewError(archon.ReasonFailedPrecondition, host+" can be reached from other machines, and traffic "+
				"would be in clear text: set ARCHON_TLS to the folder of a certificate, or ARCHON_INSECURE=1 if the network is "+
				"closed to others")
		}
		slog.Warn("listening without TLS: every host of the network can read and change all traffic", "host", host)
	}
	s := &Server{
		auth: &authenticator{keys: keys, certificate: certificate}, health: health.NewServer(), stop: make(chan struct{}),
		open: map[*openStream]struct{}{},
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(frames.NewCodec()),
		grpc.MaxRecvMsgSize(maxReceiveBytes), grpc.MaxSendMsgSize(maxReceiveBytes),
		grpc.MaxHeaderListSize(maxMetadataBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 500 * time.Millisecond, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			return archon.NewError(archon.ReasonNotServed, "no service here has "+method, archon.WithMetadata("method", method))
		}),
		grpc.WaitForHandlers(false),
	}
	if certificate != nil {
		credentials, err := security.ServerCredentials(certificate)
		if err != nil {
			return nil, archon.NewError(archon.ReasonFailedPrecondition, err.Error())
		}
		options = append(options, grpc.Creds(credentials))
	}
	address := net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
	s.listener, err = net.Listen("tcp", address)
	if err != nil {
		return nil, archon.NewError(archon.ReasonUnavailable,
			"cannot listen on "+address+": is another process using the port?", archon.WithMetadata("address", address))
	}
	s.grpc = grpc.NewServer(options...)
	register(s.grpc)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	for name := range s.grpc.GetServiceInfo() {
		s.names = append(s.names, name)
		s.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	if err := s.serveHealth(host); err != nil {
		_ = s.listener.Close()
		return nil, err
	}
	s.serving.Add(2)
	go func() {
		defer s.serving.Done()
		if err := s.grpc.Serve(s.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			slog.Error("the server ended", "error", err)
		}
	}()
	go s.checkStreams()
	return s, nil
}

// serveHealth serves health alone on ARCHON_HEALTH_PORT, without TLS: probes of Kubernetes have no certificate.
func (s *Server) serveHealth(host string) error {
	port := os.Getenv("ARCHON_HEALTH_PORT")
	if port == "" {
		return nil
	}
	address := port
	if _, err := strconv.Atoi(port); err == nil {
		address = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return archon.NewError(archon.ReasonUnavailable,
			"cannot listen on "+address+" for health checks (ARCHON_HEALTH_PORT)", archon.WithMetadata("address", address))
	}
	s.plain = grpc.NewServer()
	healthv1.RegisterHealthServer(s.plain, s.health)
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		_ = s.plain.Serve(listener)
	}()
	return nil
}

// Port returns the port where the server listens.
func (s *Server) Port() int {
	address, _ := s.listener.Addr().(*net.TCPAddr)
	return address.Port
}

// Address returns host:port where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Unhealthy makes health report NOT_SERVING, so that clients send no new calls.
func (s *Server) Unhealthy() { s.health.Shutdown() }

// Stop refuses new calls, and gives calls in progress a time to end. Idempotent.
func (s *Server) Stop(grace time.Duration) {
	s.stopping.Do(func() {
		close(s.stop)
		s.Unhealthy()
		if s.plain != nil {
			s.plain.Stop()
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.grpc.GracefulStop()
		}()
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			go s.grpc.Stop() // it waits for a GracefulStop that waits for a handler
			select {
			case <-ended:
			case <-time.After(stopTime):
				slog.Error("a handler of a call does not end")
				return
			}
		}
	})
	s.serving.Wait()
}

// admit returns the context of a call whose caller is let in.
func (s *Server) admit(ctx context.Context, method string) (context.Context, *principal, error) {
	who, err := s.auth.caller(ctx, method)
	if err != nil {
		return nil, nil, err
	}
	given, _ := metadata.FromIncomingContext(ctx)
	if own := os.Getenv("ARCHON_MESH"); own != "" {
		for _, other := range given.Get("archon-mesh-id") {
			if other != "" && other != own {
				return nil, nil, archon.NewError(archon.ReasonFailedPrecondition, "this is a member of the mesh "+own+
					", and the caller belongs to the mesh "+other+": the address belongs to another mesh now; the file mesh-id "+
					"in the folder of a mesh has its id", archon.WithMetadata("mesh", own))
			}
		}
	}
	call := archon.CallOf(ctx)
	if who != nil {
		call.Tenant, call.Identity = who.tenant, who.identity()
		ctx = context.WithValue(ctx, callerKey{}, Caller{who.kind, who.name})
	}
	ctx = archon.WithCall(ctx, call)
	if parents := given.Get("traceparent"); len(parents) > 0 {
		ctx = archon.WithTrace(ctx, parents[0], strings.Join(given.Get("tracestate"), ","))
	}
	return ctx, who, nil
}

// Caller is who has presented the credentials of a call.
type Caller struct{ Kind, Name string }

type callerKey struct{}

// CallerOf returns who calls; false in a mesh without credentials.
func CallerOf(ctx context.Context) (Caller, bool) {
	caller, ok := ctx.Value(callerKey{}).(Caller)
	return caller, ok
}

func (s *Server) unary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (response any, err error) {
	ctx, _, err = s.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, typed(err)
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			response, err = nil, archon.FromPanic(recovered, "")
		}
	}()
	response, err = handler(ctx, request)
	return response, typed(err)
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx, who, err := s.admit(stream.Context(), info.FullMethod)
	if err != nil {
		return typed(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if who != nil {
		opened := &openStream{who, cancel}
		s.mu.Lock()
		s.open[opened] = struct{}{}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.open, opened)
			s.mu.Unlock()
			if refused := archon.AsError(context.Cause(ctx)); refused != nil && refused.Is(archon.ErrUnauthenticated) {
				err = refused
			}
		}()
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			err = archon.FromPanic(recovered, "")
		}
	}()
	return typed(handler(srv, &streamWithContext{stream, ctx}))
}

type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // the context of the stream
}

// Context returns the context of the call.
func (s *streamWithContext) Context() context.Context { return s.ctx }

// typed returns an error as a typed one, without the text of an unexpected one.
func typed(err error) error {
	if err == nil {
		return nil
	}
	return archon.ToError(err, "")
}

// checkStreams ends streams whose caller's credentials have expired or were revoked.
func (s *Server) checkStreams() {
	defer s.serving.Done()
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		for opened := range s.open {
			if err := s.auth.check(opened.who); err != nil {
				opened.cancel(err)
			}
		}
		s.mu.Unlock()
	}
}
