package security

import (
	"fmt"
	"regexp"
)

var spiffeID = regexp.MustCompile(`^spiffe://([a-z0-9][a-z0-9._-]{0,254})/ns/([A-Za-z0-9][A-Za-z0-9._@-]{0,254})/` +
	`(viewer|auditor|operator|admin|agent|service)/([A-Za-z0-9][A-Za-z0-9._@-]{0,254})$`)

// SpiffeID is the id of a member: of a mesh, in a tenant, of a kind, with a name, such as
// spiffe://mesh/ns/default/agent/reviewer.
type SpiffeID struct{ Mesh, Tenant, Kind, Name string }

// ParseSpiffeID reads an id.
func ParseSpiffeID(uri string) (SpiffeID, error) {
	match := spiffeID.FindStringSubmatch(uri)
	if match == nil {
		return SpiffeID{}, fmt.Errorf("%q is not the id of a member: spiffe://MESH/ns/TENANT/KIND/NAME", uri)
	}
	return SpiffeID{match[1], match[2], match[3], match[4]}, nil
}

// DNSName returns the id as a name of DNS, which certificates carry for clients that know no URIs.
func (id SpiffeID) DNSName() string { return id.Name + "." + id.Kind + "." + id.Tenant + "." + id.Mesh }
