package archon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/archon-mesh/archon/sdk/go/internal/security"
)

// hint returns what may be wrong with a connection that fails for the sake of TLS.
func hint(text string) string {
	switch {
	case strings.Contains(text, "x509:"), strings.Contains(text, "certificate"):
		return "; its certificate is of another authority or member, or has expired"
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "; it speaks no TLS: is the address right, and was the mesh started with TLS?"
	case strings.Contains(text, "error reading server preface"):
		return "; it may speak TLS alone (ARCHON_TLS names the folder of a certificate), or have refused a certificate"
	}
	return ""
}

// meshID returns a context whose calls say which mesh the process belongs to, if it knows that (ARCHON_MESH): servers of
// another mesh, to which the address may lead by now, refuse them.
func meshID(ctx context.Context) context.Context {
	if own := os.Getenv("ARCHON_MESH"); own != "" {
		return metadata.AppendToOutgoingContext(ctx, meshIDKey, own)
	}
	return ctx
}

// WithMeshID returns a context for calls of a member to another one: registrations, watches of the registry and sessions
// carry the id of the mesh (ARCHON_MESH), so that a server of another mesh refuses them.
func WithMeshID(ctx context.Context) context.Context { return meshID(ctx) }

func resolvable(target string) string {
	host, _, err := net.SplitHostPort(target)
	if err == nil && net.ParseIP(host) != nil {
		return "passthrough:///" + target
	}
	return nameScheme + ":///" + target
}

// nearest returns the target of the Unix socket that leads to a port of this machine (ARCHON_SOCKETS), if a server of this
// user answers on it; else the target itself.
func nearest(target string) string {
	folder := os.Getenv("ARCHON_SOCKETS")
	host, port, err := net.SplitHostPort(target)
	if folder == "" || err != nil || (host != "127.0.0.1" && host != "localhost" && host != "::1") {
		return resolvable(target)
	}
	path, err := filepath.Abs(filepath.Join(folder, port+".sock"))
	if err != nil || len(path) > 100 {
		return resolvable(target)
	}
	if fault, err := security.FaultOf(filepath.Dir(path)); err != nil || fault != "" {
		return resolvable(target)
	}
	probe, err := net.DialTimeout("unix", path, 100*time.Millisecond)
	if err != nil {
		return resolvable(target)
	}
	_ = probe.Close()
	return "unix:" + path
}

func quoted(text string) string {
	if len(text) > 100 {
		text = text[:100]
	}
	return "'" + text + "'"
}
