package main

import (
	"errors"
	"testing"

	archon "github.com/archon-mesh/archon/sdk/go"
	archontest "github.com/archon-mesh/archon/sdk/go/testing"
)

func TestADraftIsDelegatedAndImproved(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "editor", edit))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "a poem")
	delegation := peer.Receive("delegate", ref).GetDelegate()
	peer.Delegated(ref, delegation.GetDelegationId(), archontest.Completed("Roses are red"))
	peer.Receive("checkpoint", ref)
	if text := peer.Text(ref); text != "Roses are red!" {
		t.Fatalf("the answer is %q", text)
	}
}

func TestWithoutAWriterTheTaskIsRefused(t *testing.T) {
	peer := archontest.Dial(t, archontest.Start(t, "editor", edit))
	peer.Open()
	ref := peer.Ref("task-1")
	peer.Assign(ref, "a poem")
	delegation := peer.Receive("delegate", ref).GetDelegate()
	peer.Delegated(ref, delegation.GetDelegationId(), archontest.FailedWith(archon.NewError(archon.ReasonUnknownRole, "no writer")))
	if err := archon.FromFailure(peer.Result(ref).GetFailure()); !errors.Is(err, archon.ErrFailedPrecondition) {
		t.Fatalf("the failure is %v", err)
	}
}
