package server

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	archon "github.com/archon-mesh/archon/sdk/go"
)

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// mesh signs tokens, and has their keys.
type mesh struct {
	t       *testing.T
	private ed25519.PrivateKey
	keys    string
}

func newMesh(t *testing.T, revoked ...string) *mesh {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(map[string]any{
		"issuer": "mesh-1", "revoked": revoked,
		"keys": []any{map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": base64.RawURLEncoding.EncodeToString(public)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &mesh{t, private, string(keys)}
}

func (m *mesh) token(changes map[string]any) string {
	claims := map[string]any{
		"iss": "mesh-1", "sub": "orchestrator", "kind": "service", "aud": "agents", "jti": "id-1",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for key, value := range changes {
		claims[key] = value
	}
	text := encoded(m.t, map[string]string{"alg": "EdDSA", "kid": "k"}) + "." + encoded(m.t, claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(m.private, []byte(text)))
}

func call(t *testing.T, keys, token, method string) error {
	t.Helper()
	learnt, err := NewLearntKeys("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	learnt.Tell(keys, "default")
	ctx := context.Background()
	if token != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
	}
	_, err = (&authenticator{keys: learnt}).caller(ctx, method)
	return err
}

const session = "/archon.api.agent.v1.AgentService/Session"

func TestCallersAreLetInByTheirToken(t *testing.T) {
	t.Setenv("ARCHON_HOME", t.TempDir())
	m, other := newMesh(t, "revoked"), newMesh(t)
	for name, each := range map[string]struct {
		token string
		want  error
	}{
		"a service":              {m.token(nil), nil},
		"no token":               {"", archon.ReasonTokenMissing},
		"no JSON Web Token":      {"abc", archon.ReasonTokenInvalid},
		"another mesh":           {other.token(nil), archon.ReasonTokenInvalid},
		"another audience":       {m.token(map[string]any{"aud": "services"}), archon.ReasonTokenInvalid},
		"expired":                {m.token(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), archon.ReasonTokenExpired},
		"revoked":                {m.token(map[string]any{"jti": "revoked"}), archon.ReasonTokenRevoked},
		"an agent":               {m.token(map[string]any{"kind": "agent"}), archon.ErrPermissionDenied},
		"an unknown kind":        {m.token(map[string]any{"kind": "god"}), archon.ReasonTokenInvalid},
		"a service of a tenant":  {m.token(map[string]any{"tenant": "other"}), archon.ErrPermissionDenied},
		"the identity of others": {m.token(map[string]any{"sub": "service:x"}), archon.ReasonTokenInvalid},
	} {
		if err := call(t, m.keys, each.token, session); !errors.Is(err, each.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAMeshWithoutKeysLetsEverybodyIn(t *testing.T) {
	t.Setenv("ARCHON_HOME", t.TempDir())
	if err := call(t, "", "", session); err != nil {
		t.Fatal(err)
	}
}

func TestHealthNeedsNoToken(t *testing.T) {
	t.Setenv("ARCHON_HOME", t.TempDir())
	if err := call(t, newMesh(t).keys, "", "/grpc.health.v1.Health/Check"); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNotInThePolicyIsRefused(t *testing.T) {
	t.Setenv("ARCHON_HOME", t.TempDir())
	m := newMesh(t)
	if err := call(t, m.keys, m.token(nil), "/archon.api.agent.v1.AgentService/New"); !errors.Is(err, archon.ErrPermissionDenied) {
		t.Fatal(err)
	}
}
