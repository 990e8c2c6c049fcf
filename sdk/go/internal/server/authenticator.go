package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/internal/security"
)

const (
	maxVerified     = 4_096
	refusalsLogged  = 10 // per minute; the others are counted
	reflectionCalls = "/grpc.reflection."
	healthCalls     = "/grpc.health.v1.Health/"
)

// authenticator lets callers in by their token, which is verified once until it expires or the keys change; or without one,
// by the certificate of their connection, if the agent has one itself.
type authenticator struct {
	keys        *LearntKeys
	certificate *security.CertificateFolder

	mu       sync.Mutex
	by       *keySet
	verified map[string]*principal
	refusals refusals
}

// caller returns the caller of a method; nil if every caller is let in.
func (a *authenticator) caller(ctx context.Context, method string) (*principal, error) {
	if strings.HasPrefix(method, healthCalls) {
		return nil, nil
	}
	who, err := a.identify(ctx)
	if err == nil && who != nil {
		err = a.allow(who, method)
	}
	if err != nil {
		a.refusals.note(method, err)
	}
	return who, err
}

func (a *authenticator) identify(ctx context.Context) (*principal, error) {
	keys, err := a.keys.read()
	if err != nil {
		if typed := archon.AsError(err); typed != nil {
			return nil, typed
		}
		return nil, archon.NewError(archon.ReasonUnavailable, "no call can be let in: "+err.Error())
	}
	given, _ := metadata.FromIncomingContext(ctx)
	authorization := given.Get("authorization")
	token := ""
	if len(authorization) > 0 && len(authorization[0]) > 7 && strings.EqualFold(authorization[0][:7], "bearer ") {
		token = strings.TrimSpace(authorization[0][7:])
	}
	if a.certificate != nil && (keys == nil || len(authorization) == 0) {
		return a.member(ctx)
	}
	if keys == nil {
		return nil, nil
	}
	if token == "" {
		return nil, archon.NewError(archon.ReasonTokenMissing, "this member of the mesh "+keys.issuer+
			" needs a token: `archon token`, in the folder of the mesh, prints one; set ARCHON_TOKEN to it, or the metadata "+
			`"authorization" to "Bearer TOKEN"`)
	}
	return a.ofToken(token, keys)
}

func (a *authenticator) ofToken(token string, keys *keySet) (*principal, error) {
	now := time.Now()
	a.mu.Lock()
	if a.by != keys || a.verified == nil {
		a.verified, a.by = map[string]*principal{}, keys // another key, or a token was revoked
	}
	who, known := a.verified[token]
	a.mu.Unlock()
	if known {
		if now.Before(who.expires) {
			return who, nil
		}
		return nil, archon.NewError(archon.ReasonTokenExpired, "the token has expired")
	}
	who, err := verify(token, keys, now)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.verified) >= maxVerified {
		a.verified = map[string]*principal{}
	}
	if a.by == keys {
		a.verified[token] = who
	}
	return who, nil
}

// member returns the caller that the certificate of a connection names.
func (a *authenticator) member(ctx context.Context) (*principal, error) {
	own, err := a.certificate.Read()
	if err != nil {
		return nil, archon.NewError(archon.ReasonUnavailable, err.Error())
	}
	connection, ok := peer.FromContext(ctx)
	if !ok {
		return nil, archon.NewError(archon.ReasonCertificateRefused, "the connection has no certificate")
	}
	certificate := security.PeerCertificate(connection.AuthInfo)
	if certificate == nil {
		return nil, archon.NewError(archon.ReasonCertificateRefused, "the connection has no certificate")
	}
	id, err := security.IDOf(certificate)
	if err != nil {
		return nil, archon.NewError(archon.ReasonCertificateRefused,
			"the certificate of the connection names no member of the mesh: "+err.Error())
	}
	if id.Mesh != own.ID.Mesh {
		return nil, archon.NewError(archon.ReasonCertificateRefused,
			"the certificate of the connection is of the mesh "+id.Mesh+", this is "+own.ID.Mesh)
	}
	if !time.Now().Before(certificate.NotAfter) {
		return nil, archon.NewError(archon.ReasonCertificateRefused, "the certificate of the connection has expired")
	}
	return &principal{id.Kind, id.Name, id.Tenant, certificate.NotAfter, ""}, nil
}

// allow returns PERMISSION_DENIED if the caller may not call a method, or is of another tenant and serves not all.
func (a *authenticator) allow(who *principal, method string) error {
	kinds, ok := policy[method]
	if !ok && strings.HasPrefix(method, reflectionCalls) {
		return nil // descriptors, which say nothing about the mesh; the caller has proved who it is
	}
	if !contains(kinds, who.kind) {
		name := method[strings.LastIndex(method, "/")+1:]
		return archon.NewError(archon.ReasonPermissionDenied,
			who.identity()+" is of kind "+who.kind+" and may not call "+name,
			archon.WithMetadata("method", method), archon.WithMetadata("identity", who.identity()),
			archon.WithMetadata("kind", who.kind))
	}
	tenant, registers := a.keys.ownTenant()
	if who.ofAllTenants() || !registers {
		return nil
	}
	if tenant == "" {
		return errNotRegistered
	}
	if who.tenant != tenant {
		return archon.NewError(archon.ReasonPermissionDenied, who.identity()+" is of another tenant than this agent",
			archon.WithMetadata("identity", who.identity()), archon.WithMetadata("kind", who.kind))
	}
	return nil
}

// check returns an error if the credentials of a call in progress are not valid any more.
func (a *authenticator) check(who *principal) error {
	keys, err := a.keys.read()
	if err != nil {
		return nil //nolint:nilerr // keys that cannot be read now end no stream
	}
	if keys != nil && who.tokenID != "" && keys.revoked[who.tokenID] {
		return archon.NewError(archon.ReasonTokenRevoked, "the token of this call was revoked")
	}
	if time.Now().Before(who.expires) {
		return nil
	}
	if who.tokenID == "" {
		return archon.NewError(archon.ReasonCertificateRefused, "the certificate of this call has expired")
	}
	return archon.NewError(archon.ReasonTokenExpired, "the token of this call has expired")
}

// refusals logs refused calls: a few in each minute, and the number of the others.
type refusals struct {
	mu    sync.Mutex
	until time.Time
	count int
}

func (r *refusals) note(method string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.After(r.until) {
		if r.count > refusalsLogged {
			slog.Warn("refused further calls in a minute", "calls", r.count-refusalsLogged)
		}
		r.until, r.count = now.Add(time.Minute), 0
	}
	r.count++
	if r.count <= refusalsLogged && !errors.Is(err, errNotRegistered) {
		slog.Warn("refused a call", "method", method[strings.LastIndex(method, "/")+1:], "error", err)
	}
}
