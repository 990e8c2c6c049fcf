package main

import (
	"context"
	"os"
	"strings"
)

// token presents the first token of ARCHON_TOKEN, which is for the services of the mesh.
type token struct{}

func (token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	first, _, _ := strings.Cut(os.Getenv("ARCHON_TOKEN"), ",")
	if first == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + first}, nil
}

// RequireTransportSecurity is false: the mesh is on this machine.
func (token) RequireTransportSecurity() bool { return false }
