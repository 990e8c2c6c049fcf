package main

import (
	"testing"

	archontest "github.com/archon-mesh/archon/sdk/go/testing"
)

func TestTranslate(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "translator", translate))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "Ada")
	if text := peer.Text(ref); text != "Bonjour, Ada" {
		t.Fatalf("the answer is %q", text)
	}
}
