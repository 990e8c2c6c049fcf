package security

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// The servers that accept a token.
const (
	Services = "services"
	Agents   = "agents"
)

// ErrNoToken is the error of a text that is not a JSON Web Token.
var ErrNoToken = errors.New("it is not a JSON Web Token")

// Token is a token to present, and whether its kind may act for others.
type Token struct {
	Text            string
	MayActForOthers bool
}

// TokensIn returns the tokens of a text, separated by commas or white space, by their audience.
func TokensIn(text string) (map[string]Token, error) {
	tokens := map[string]Token{}
	for _, token := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' }) {
		claims, err := ClaimsOf(token)
		if err != nil {
			return nil, err
		}
		audience, kind := Services, ""
		_ = json.Unmarshal(claims["kind"], &kind)
		var aud string
		if json.Unmarshal(claims["aud"], &aud) == nil && aud == Agents {
			audience = Agents
		}
		tokens[audience] = Token{token, ActsForOthers(kind)}
	}
	return tokens, nil
}

// ActsForOthers reports whether calls of a kind of caller may name another identity, on whose behalf they are made.
func ActsForOthers(kind string) bool { return kind == "admin" || kind == "service" }

// ClaimsOf returns the claims of a token without verifying it.
func ClaimsOf(token string) (map[string]json.RawMessage, error) {
	parts := strings.Split(token, ".")
	if len(parts) < 2 {
		return nil, ErrNoToken
	}
	payload, err := DecodeBase64(parts[1])
	if err != nil {
		return nil, ErrNoToken
	}
	var claims map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil || claims == nil {
		return nil, ErrNoToken
	}
	return claims, nil
}

// DecodeBase64 decodes base64 of URLs, with or without padding.
func DecodeBase64(text string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
}

// TokenFile is a file of tokens, one for each audience, which is read again when it has changed.
type TokenFile struct {
	path    string
	mu      sync.Mutex
	checked time.Time
	last    stamp
	tokens  map[string]Token
	warned  bool
}

// NewTokenFile returns a file, which is read at the first use.
func NewTokenFile(path string) *TokenFile { return &TokenFile{path: path} }

// Read returns the tokens by audience; the last ones if the file cannot be read now, an error if it has something else.
func (f *TokenFile) Read() (map[string]Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < interval {
		return f.tokens, nil
	}
	now, err := stampOf(f.path)
	if err == nil && now != f.last {
		var text []byte
		if text, err = os.ReadFile(f.path); err == nil {
			tokens, err := TokensIn(string(text))
			if err != nil {
				return nil, errors.New(f.path + " has no token: " + err.Error())
			}
			f.tokens, f.last = tokens, now
		}
	}
	f.checked = time.Now()
	if err != nil && f.tokens == nil && !f.warned {
		f.warned = true
		slog.Warn("the file of the token cannot be read, so calls present none until it can", "error", err)
	}
	return f.tokens, nil
}
