package archon

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/archon-mesh/archon/sdk/go/internal/hpke"
)

const (
	// MaxSecret is the number of bytes of a secret answer at most.
	MaxSecret = 64 << 10

	sealedPrefix    = "sealed:"
	secretInfo      = "archon secret answer v1"
	secretKey       = "x-archon-public-key"
	secretPattern   = "^" + sealedPrefix + "[A-Za-z0-9+/]+=*$"
	notForThisError = "the answer was not encrypted for this question"
)

// SecretQuestion is a question to a person whose answer only this object can read: no journal, record or watcher of the run
// has it. The encryption is HPKE in base mode (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM.
type SecretQuestion struct{ key *ecdh.PrivateKey }

// NewSecretQuestion returns a question with a key of its own.
func NewSecretQuestion() (*SecretQuestion, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, ToError(err, "")
	}
	return &SecretQuestion{key}, nil
}

// SchemaJSON returns the JSON Schema of the answer. It accepts no answer that is not encrypted.
func (q *SecretQuestion) SchemaJSON() string {
	schema, _ := json.Marshal(map[string]any{
		"type": "string", "pattern": secretPattern, "writeOnly": true,
		secretKey: base64.StdEncoding.EncodeToString(q.key.PublicKey().Bytes()),
	})
	return string(schema)
}

// Open returns the text of an answer. It fails with INVALID_ARGUMENT if it was not encrypted for this question.
func (q *SecretQuestion) Open(answer string) (string, error) {
	encoded, ok := strings.CutPrefix(answer, sealedPrefix)
	sealed, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return "", NewError(ReasonInvalidArgument, notForThisError)
	}
	secret, err := hpke.Open(q.key, []byte(secretInfo), sealed)
	if err != nil {
		return "", NewError(ReasonInvalidArgument, notForThisError)
	}
	return string(secret), nil
}

// IsSecret reports whether the answer to a question with this JSON Schema has to be encrypted.
func IsSecret(schemaJSON string) bool { return publicKeyOf(schemaJSON) != "" }

// SealAnswer encrypts an answer for the question with this JSON Schema. It fails with INVALID_ARGUMENT if the schema has no
// valid public key, or the answer is empty or above MaxSecret bytes.
func SealAnswer(schemaJSON, answer string) (string, error) {
	if len(answer) == 0 || len(answer) > MaxSecret {
		return "", NewError(ReasonInvalidArgument, fmt.Sprintf("a secret answer has 1 to %d bytes, not %d", MaxSecret, len(answer)))
	}
	raw, err := base64.StdEncoding.DecodeString(publicKeyOf(schemaJSON))
	if err == nil {
		var key *ecdh.PublicKey
		if key, err = ecdh.X25519().NewPublicKey(raw); err == nil {
			var sealed []byte
			if sealed, err = hpke.Seal(key, []byte(secretInfo), []byte(answer)); err == nil {
				return sealedPrefix + base64.StdEncoding.EncodeToString(sealed), nil
			}
		}
	}
	return "", NewError(ReasonInvalidArgument, "the question has no valid public key to encrypt the answer with")
}

func publicKeyOf(schemaJSON string) string {
	var schema map[string]any
	if json.Unmarshal([]byte(schemaJSON), &schema) != nil {
		return ""
	}
	key, _ := schema[secretKey].(string)
	return key
}
