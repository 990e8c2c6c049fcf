package archon

import (
	"context"
	"os"
	"sync"

	"github.com/archon-mesh/archon/sdk/go/internal/security"
)

// Credentials is the source of what calls present: a token, and on whose behalf a call is made.
type Credentials interface {
	// Metadata returns the metadata of a call made now.
	Metadata(ctx context.Context) (map[string]string, error)
}

// The metadata of a call on behalf of another identity.
const (
	tenantKey   = "archon-tenant"
	identityKey = "archon-identity"
)

// NoCredentials presents nothing.
func NoCredentials() Credentials {
	return tokenSource{read: func() (map[string]security.Token, error) { return nil, nil }}
}

// Token presents a token, or several separated by commas or white space, each at the servers that it is for.
func Token(text string) (Credentials, error) {
	tokens, err := security.TokensIn(text)
	if err != nil {
		return nil, NewError(ReasonTokenInvalid, "the text has no token: "+err.Error())
	}
	return tokenSource{read: func() (map[string]security.Token, error) { return tokens, nil }}, nil
}

// TokenFile presents the tokens of a file, which is read again when it has changed.
func TokenFile(path string) Credentials { return tokenSource{read: security.NewTokenFile(path).Read} }

type tokenSource struct {
	read func() (map[string]security.Token, error)
}

// Metadata returns the token for services.
func (s tokenSource) Metadata(ctx context.Context) (map[string]string, error) {
	return s.present(ctx, security.Services)
}

func (s tokenSource) present(ctx context.Context, audience string) (map[string]string, error) {
	tokens, err := s.read()
	if err != nil {
		return nil, NewError(ReasonTokenInvalid, err.Error())
	}
	token, ok := tokens[audience]
	if !ok {
		return nil, nil
	}
	metadata := map[string]string{"authorization": "Bearer " + token.Text}
	if token.MayActForOthers {
		addOnBehalf(ctx, metadata)
	}
	return metadata, nil
}

// addOnBehalf adds on whose behalf a call is made: the identity and the tenant of the call that the context serves.
func addOnBehalf(ctx context.Context, metadata map[string]string) {
	call := CallOf(ctx)
	if call.Identity != "" && call.Identity != Anonymous {
		metadata[tenantKey], metadata[identityKey] = call.Tenant, call.Identity
	} else if call.Tenant != "" && call.Tenant != DefaultTenant {
		metadata[tenantKey] = call.Tenant
	}
}

// foundTokens presents the user's token of the mesh on this machine that has a service at an address, once there is one.
type foundTokens struct {
	folder *security.ServingFolder
	mu     sync.Mutex
	file   *security.TokenFile
}

// Metadata returns the token for services.
func (f *foundTokens) Metadata(ctx context.Context) (map[string]string, error) {
	return f.present(ctx, security.Services)
}

func (f *foundTokens) present(ctx context.Context, audience string) (map[string]string, error) {
	f.mu.Lock()
	if f.file == nil {
		if folder := f.folder.Find(); folder != nil {
			f.file = security.NewTokenFile(folder.TokenFile())
		}
	}
	file := f.file
	f.mu.Unlock()
	if file == nil {
		return nil, nil
	}
	return tokenSource{read: file.Read}.present(ctx, audience)
}

// presenter is the credentials that tell audiences apart.
type presenter interface {
	present(ctx context.Context, audience string) (map[string]string, error)
}

// credentialsFor returns the credentials of calls by the environment of this process: ARCHON_TOKEN, ARCHON_TOKEN_FILE, else
// the folder of the mesh on this machine with a service at target.
func credentialsFor(target string) (Credentials, error) {
	if text := os.Getenv("ARCHON_TOKEN"); text != "" {
		credentials, err := Token(text)
		if err != nil {
			return nil, NewError(ReasonTokenInvalid, "ARCHON_TOKEN has no token: it is not a JSON Web Token")
		}
		return credentials, nil
	}
	if path := os.Getenv("ARCHON_TOKEN_FILE"); path != "" {
		return TokenFile(path), nil
	}
	return &foundTokens{folder: security.NewServingFolder(target)}, nil
}
