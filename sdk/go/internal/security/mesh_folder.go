package security

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// MeshFolder is the folder of a mesh on this machine, such as ./.archon. It need not exist.
type MeshFolder struct{ Root string }

// TokenFile has the tokens of the user who started the mesh.
func (f MeshFolder) TokenFile() string { return filepath.Join(f.Root, "token") }

// KeysFile has the public keys that verify the tokens of the mesh.
func (f MeshFolder) KeysFile() string { return filepath.Join(f.Root, "keys.json") }

// UserCertificate is the folder of the certificate of the user who started the mesh, if its connections are encrypted.
func (f MeshFolder) UserCertificate() string { return filepath.Join(f.Root, "tls", "user") }

type meshState struct {
	PID       int  `json:"pid"`
	TLS       bool `json:"tls"`
	Processes []struct {
		Kind    string `json:"kind"`
		Address string `json:"address"`
	} `json:"processes"`
}

// live returns the state of the mesh; nil if it does not run, or another user could have written it.
func (f MeshFolder) live() *meshState {
	if fault, err := FaultOf(f.Root); err != nil || fault != "" {
		return nil
	}
	pid := holder(filepath.Join(f.Root, "lock"))
	if pid == 0 {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(f.Root, "state.json"))
	if err != nil {
		return nil
	}
	state := &meshState{}
	if json.Unmarshal(text, state) != nil || state.PID != pid {
		return nil
	}
	return state
}

// Serves reports whether a running mesh of this folder has a service at target (host:port). Another program may listen
// there while the mesh does not run: it would get the token.
func (f MeshFolder) Serves(target string) bool { return has(f.live(), target, "service") }

// Encrypts reports whether a running mesh of this folder has a service or an agent at target, and encrypts its connections.
func (f MeshFolder) Encrypts(target string) bool {
	state := f.live()
	return state != nil && state.TLS && has(state, target, "service", "agent")
}

func has(state *meshState, target string, kinds ...string) bool {
	host, port, err := net.SplitHostPort(target)
	if state == nil || err != nil || !IsLoopback(host) {
		return false
	}
	for _, process := range state.Processes {
		_, own, err := net.SplitHostPort(process.Address)
		if err == nil && own == port && slices.Contains(kinds, process.Kind) {
			return true
		}
	}
	return false
}

// IsLoopback reports whether a host is this machine: localhost, a name below it, or a loopback address.
func IsLoopback(host string) bool {
	host = strings.ToLower(strings.TrimRight(strings.Trim(host, "[]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address := net.ParseIP(host)
	return address != nil && address.IsLoopback()
}

// ServingFolder is the folder of the mesh whose service is at an address: looked for until it is found, in intervals.
type ServingFolder struct {
	target string
	mu     sync.Mutex
	found  *MeshFolder
	looked time.Time
}

// NewServingFolder returns the folder of the mesh with a service at target.
func NewServingFolder(target string) *ServingFolder { return &ServingFolder{target: target} }

// Find returns the folder; nil if none is found now.
func (s *ServingFolder) Find() *MeshFolder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil && time.Since(s.looked) >= 100*time.Millisecond {
		s.looked = time.Now()
		for _, folder := range Candidates() {
			if folder.Serves(s.target) {
				s.found = &folder
				break
			}
		}
	}
	return s.found
}

// Candidates returns the folders in which a program looks for its mesh: ARCHON_HOME, else the nearest .archon.
func Candidates() []MeshFolder {
	if configured := os.Getenv("ARCHON_HOME"); configured != "" {
		if absolute, err := filepath.Abs(configured); err == nil {
			return []MeshFolder{{absolute}}
		}
	}
	start, err := os.Getwd()
	if err != nil {
		return nil
	}
	nearest := nearestFolder(start)
	if info, err := os.Lstat(nearest); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil
	}
	return []MeshFolder{{nearest}}
}

// nearestFolder returns the nearest .archon. Outside of a repository and of the user's home only start is searched: a
// folder above it may be another user's.
func nearestFolder(start string) string {
	const name = ".archon"
	own := filepath.Join(start, name)
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	var searched []string
	for folder := start; ; folder = filepath.Dir(folder) {
		searched = append(searched, filepath.Join(folder, name))
		_, err := os.Stat(filepath.Join(folder, ".git"))
		if folder == home || err == nil {
			for _, each := range searched {
				if info, err := os.Stat(each); err == nil && info.IsDir() {
					return each
				}
			}
			return own
		}
		if folder == filepath.Dir(folder) {
			return own
		}
	}
}
