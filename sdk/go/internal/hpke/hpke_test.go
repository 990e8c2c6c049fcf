package hpke

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"testing"
)

func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	value, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestKeySchedule holds the key schedule to the vector of RFC 9180, A.1.1.
func TestKeySchedule(t *testing.T) {
	ephemeral, err := ecdh.X25519().NewPrivateKey(bytesOf(t, "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736"))
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := ecdh.X25519().NewPublicKey(bytesOf(t, "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := ephemeral.ECDH(receiver)
	if err != nil {
		t.Fatal(err)
	}
	info := bytesOf(t, "4f6465206f6e2061204772656369616e2055726e")
	_, nonce, err := schedule(shared, ephemeral.PublicKey().Bytes(), receiver.Bytes(), info)
	if err != nil {
		t.Fatal(err)
	}
	if want := bytesOf(t, "56d890e5accaaf011cff4b7d"); !bytes.Equal(nonce, want) {
		t.Fatalf("the nonce is %x, not %x", nonce, want)
	}
}

func TestSealAndOpen(t *testing.T) {
	own, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := Seal(own.PublicKey(), []byte("info"), []byte("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := Open(own, []byte("info"), sealed); err != nil || string(opened) != "hunter2" {
		t.Fatalf("%q, %v", opened, err)
	}
	for name, other := range map[string][]byte{
		"changed": append(sealed[:len(sealed)-1:len(sealed)-1], sealed[len(sealed)-1]^1), "short": sealed[:40], "empty": nil,
	} {
		if _, err := Open(own, []byte("info"), other); err == nil {
			t.Fatalf("a message that is %s was opened", name)
		}
	}
	if _, err := Open(own, []byte("another"), sealed); err == nil {
		t.Fatal("a message was opened with another info")
	}
}
