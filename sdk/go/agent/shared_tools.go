package agent

import (
	"github.com/archon-mesh/archon/sdk/go/internal/toolowner"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

// SharedTools are the tools of an agent that other agents may lease and execute.
type SharedTools struct{ owner *toolowner.Owner }

// Share shares a tool from now on. It fails with ALREADY_EXISTS if one of its name is shared.
func (t *SharedTools) Share(tool tools.SharedTool) error { return t.owner.Share(tool) }

// Revoke takes a tool back at once: its leases end, and so do its calls in progress. It returns the number of leases.
func (t *SharedTools) Revoke(name string) int { return t.owner.Revoke(name) }

// RevokeLease ends a lease at once, with its calls in progress. It returns whether it was in force.
func (t *SharedTools) RevokeLease(id string) bool { return t.owner.RevokeLease(id) }
