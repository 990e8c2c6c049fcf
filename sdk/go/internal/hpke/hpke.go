// Package hpke is Hybrid Public Key Encryption (RFC 9180) of single messages, in base mode with X25519, HKDF-SHA256 and
// AES-128-GCM. The primitives are those of the standard library.
package hpke

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

const (
	version   = "HPKE-v1"
	kemSuite  = "KEM\x00\x20"
	suite     = "HPKE\x00\x20\x00\x01\x00\x01"
	keySize   = 16
	nonceSize = 12
	pointSize = 32
)

var errSealed = errors.New("hpke: the message cannot be opened")

// Seal encrypts a message for the owner of a public key: the encapsulated key, followed by the ciphertext.
func Seal(to *ecdh.PublicKey, info, message []byte) ([]byte, error) {
	ephemeral, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return seal(ephemeral, to, info, message)
}

func seal(ephemeral *ecdh.PrivateKey, to *ecdh.PublicKey, info, message []byte) ([]byte, error) {
	shared, err := ephemeral.ECDH(to)
	if err != nil {
		return nil, err
	}
	encapsulated := ephemeral.PublicKey().Bytes()
	aead, nonce, err := schedule(shared, encapsulated, to.Bytes(), info)
	if err != nil {
		return nil, err
	}
	return append(encapsulated, aead.Seal(nil, nonce, message, nil)...), nil
}

// Open decrypts a message that Seal has encrypted. All failures are the same error.
func Open(own *ecdh.PrivateKey, info, sealed []byte) ([]byte, error) {
	if len(sealed) < pointSize {
		return nil, errSealed
	}
	sender, err := ecdh.X25519().NewPublicKey(sealed[:pointSize])
	if err != nil {
		return nil, errSealed
	}
	shared, err := own.ECDH(sender)
	if err != nil {
		return nil, errSealed
	}
	aead, nonce, err := schedule(shared, sealed[:pointSize], own.PublicKey().Bytes(), info)
	if err != nil {
		return nil, errSealed
	}
	message, err := aead.Open(nil, nonce, sealed[pointSize:], nil)
	if err != nil {
		return nil, errSealed
	}
	return message, nil
}

// schedule returns the cipher and the nonce of the first message (RFC 9180, 4.1 and 5.1).
func schedule(shared, encapsulated, receiver, info []byte) (cipher.AEAD, []byte, error) {
	kem := expand(kemSuite, extract(kemSuite, nil, "eae_prk", shared), "shared_secret", join(encapsulated, receiver), sha256.Size)
	context := join([]byte{0}, extract(suite, nil, "psk_id_hash", nil), extract(suite, nil, "info_hash", info))
	secret := extract(suite, kem, "secret", nil)
	block, err := aes.NewCipher(expand(suite, secret, "key", context, keySize))
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, expand(suite, secret, "base_nonce", context, nonceSize), err
}

// extract is LabeledExtract.
func extract(id string, salt []byte, label string, material []byte) []byte {
	if salt == nil {
		salt = make([]byte, sha256.Size)
	}
	return mac(salt, []byte(version), []byte(id), []byte(label), material)
}

// expand is LabeledExpand of at most one block.
func expand(id string, key []byte, label string, info []byte, size int) []byte {
	return mac(key, []byte{0, byte(size)}, []byte(version), []byte(id), []byte(label), info, []byte{1})[:size]
}

func mac(key []byte, parts ...[]byte) []byte {
	hash := hmac.New(sha256.New, key)
	for _, part := range parts {
		hash.Write(part)
	}
	return hash.Sum(nil)
}

func join(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}
