package server

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/internal/security"
)

const (
	maxToken    = 8_192
	maxKeyBytes = 1 << 20
)

var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

// keySet is the public keys of a mesh, by id, and the ids of its revoked tokens.
type keySet struct {
	issuer  string
	keys    map[string]ed25519.PublicKey
	revoked map[string]bool
}

// parseKeys reads a JSON Web Key Set (RFC 7517, RFC 8037) with an issuer and revoked tokens.
func parseKeys(text []byte) (*keySet, error) {
	var content struct {
		Keys []struct {
			Kty, Crv, Kid, X string
		}
		Issuer  string
		Revoked []string
	}
	if json.Unmarshal(text, &content) != nil || content.Issuer == "" {
		return nil, errors.New("it is not a set of public keys of a mesh")
	}
	set := &keySet{content.Issuer, map[string]ed25519.PublicKey{}, map[string]bool{}}
	for _, key := range content.Keys {
		if key.Kty != "OKP" || key.Crv != "Ed25519" {
			continue
		}
		raw, err := security.DecodeBase64(key.X)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, errors.New("it is not a set of public keys of a mesh")
		}
		set.keys[key.Kid] = raw
	}
	for _, id := range content.Revoked {
		set.revoked[id] = true
	}
	if len(set.keys) == 0 {
		return nil, errors.New("it has no public key of Ed25519")
	}
	return set, nil
}

// keyFile is a file of public keys, which is read again when it has changed.
type keyFile struct {
	path    string
	mu      sync.Mutex
	checked time.Time
	text    string
	keys    *keySet
}

// read returns the keys; a file that has become unreadable leaves the last ones valid.
func (f *keyFile) read() (*keySet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys != nil && time.Since(f.checked) < time.Second {
		return f.keys, nil
	}
	f.checked = time.Now()
	text, err := os.ReadFile(f.path)
	if err == nil && len(text) > maxKeyBytes {
		err = fmt.Errorf("it has more than %d bytes", maxKeyBytes)
	}
	if err == nil && (f.keys == nil || string(text) != f.text) {
		var keys *keySet
		if keys, err = parseKeys(text); err == nil {
			f.keys, f.text = keys, string(text)
		}
	}
	if f.keys == nil {
		return nil, fmt.Errorf("cannot use the file of public keys %s: %w", f.path, err)
	}
	return f.keys, nil
}

// LearntKeys are the keys of an agent: from ARCHON_KEYS, the folder of its mesh on this machine, else from the registry. An
// agent with a token refuses every caller before it knows the keys; one without a token lets every caller in, as its mesh
// does.
type LearntKeys struct {
	registry string
	own      *keyFile
	folder   *security.ServingFolder

	mu     sync.Mutex
	file   *keyFile
	told   *keySet
	tenant string
}

// NewLearntKeys returns the keys of an agent that registers at a registry; empty: nowhere.
func NewLearntKeys(registry string) (*LearntKeys, error) {
	k := &LearntKeys{registry: registry}
	if path := os.Getenv("ARCHON_KEYS"); path != "" {
		k.own = &keyFile{path: path}
		if _, err := k.own.read(); err != nil {
			return nil, archon.NewError(archon.ReasonFailedPrecondition, err.Error())
		}
	} else if registry != "" {
		k.folder = security.NewServingFolder(registry)
	}
	return k, nil
}

// Tell takes in the answer of the registry: a key set as JSON, empty if the mesh needs no tokens, and the agent's tenant.
func (k *LearntKeys) Tell(keysJSON, tenant string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if tenant == "" {
		tenant = archon.DefaultTenant
	}
	k.tenant = tenant
	if keysJSON == "" {
		return
	}
	keys, err := parseKeys([]byte(keysJSON))
	if err != nil {
		slog.Warn("the keys that the registry has sent are not used", "error", err)
		return
	}
	k.told = keys
}

func (k *LearntKeys) ownTenant() (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tenant, k.registry != ""
}

// read returns the keys; nil if the mesh has none.
func (k *LearntKeys) read() (*keySet, error) {
	if k.own != nil {
		return k.own.read()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil && k.folder != nil {
		if folder := k.folder.Find(); folder != nil {
			if _, err := os.Stat(folder.KeysFile()); err == nil {
				k.file = &keyFile{path: folder.KeysFile()}
			}
		}
	}
	if k.file != nil {
		return k.file.read()
	}
	hasToken := os.Getenv("ARCHON_TOKEN") != "" || os.Getenv("ARCHON_TOKEN_FILE") != ""
	if k.told == nil && k.registry != "" && hasToken {
		return nil, errNotRegistered
	}
	return k.told, nil
}

var errNotRegistered = archon.NewError(archon.ReasonUnavailable, "this agent has not registered yet",
	archon.WithRetryDelay(time.Second))

// principal is a caller whose credentials were verified.
type principal struct {
	kind, name, tenant string
	expires            time.Time
	tokenID            string
}

func (p *principal) identity() string {
	if p.kind == agent || p.kind == service {
		return p.kind + ":" + p.name
	}
	return p.name
}

func (p *principal) ofAllTenants() bool { return p.kind == service && p.tenant == archon.DefaultTenant }

func invalidToken(message string) error { return archon.NewError(archon.ReasonTokenInvalid, message) }

// verify returns the caller of a token: a JSON Web Token with a signature of Ed25519.
func verify(token string, keys *keySet, now time.Time) (*principal, error) {
	if len(token) > maxToken {
		return nil, invalidToken("the token is too long")
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, invalidToken("the token is not a JSON Web Token")
	}
	var header struct{ Alg, Kid string }
	raw, err := security.DecodeBase64(parts[0])
	if err != nil || json.Unmarshal(raw, &header) != nil {
		return nil, invalidToken("the token is not a JSON Web Token")
	}
	key, ok := keys.keys[header.Kid]
	if !ok {
		return nil, invalidToken("the token was signed by another mesh than " + keys.issuer + ", or with an earlier key of it")
	}
	signature, err := security.DecodeBase64(parts[2])
	if err != nil || header.Alg != "EdDSA" || !ed25519.Verify(key, []byte(parts[0]+"."+parts[1]), signature) {
		return nil, invalidToken("the token is not valid: its signature or its claims are wrong")
	}
	return principalOf(parts[1], keys, now)
}

func principalOf(payload string, keys *keySet, now time.Time) (*principal, error) {
	var claims struct {
		Iss, Sub, Kind, Tenant, Jti string
		Aud                         any
		Exp, Iat                    *float64
	}
	raw, err := security.DecodeBase64(payload)
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return nil, invalidToken("the token is not valid: its signature or its claims are wrong")
	}
	if claims.Exp == nil || claims.Iat == nil || claims.Iss != keys.issuer || claims.Jti == "" {
		return nil, invalidToken("the token is not valid: its signature or its claims are wrong")
	}
	expires := time.Unix(int64(*claims.Exp), 0)
	if !now.Before(expires) {
		return nil, archon.NewError(archon.ReasonTokenExpired, "the token has expired")
	}
	if !isFor(claims.Aud, security.Agents) {
		return nil, invalidToken("the token is not for the agents of the mesh")
	}
	if !contains(everybody, claims.Kind) {
		return nil, invalidToken("the token names no kind of caller that this mesh knows")
	}
	printable := strings.IndexFunc(claims.Sub, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	if !printable || strings.HasPrefix(claims.Sub, "agent:") || strings.HasPrefix(claims.Sub, "service:") {
		return nil, invalidToken("the token has a name that is the identity of a member, or is not printable")
	}
	if claims.Tenant == "" {
		claims.Tenant = archon.DefaultTenant
	}
	if !tenantName.MatchString(claims.Tenant) {
		return nil, invalidToken("the token names no tenant")
	}
	if keys.revoked[claims.Jti] {
		return nil, archon.NewError(archon.ReasonTokenRevoked, "the token was revoked")
	}
	return &principal{claims.Kind, claims.Sub, claims.Tenant, expires, claims.Jti}, nil
}

func isFor(audience any, wanted string) bool {
	switch audience := audience.(type) {
	case string:
		return audience == wanted
	case []any:
		for _, each := range audience {
			if each == wanted {
				return true
			}
		}
	}
	return false
}

func contains(values []string, value string) bool {
	for _, each := range values {
		if each == value {
			return true
		}
	}
	return false
}
