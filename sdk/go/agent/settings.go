package agent

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/internal/security"
)

const defaultDrain = 30 * time.Second

// Settings are those that depend on where the agent runs. Without Registry and Attach it serves unregistered. DependsOn
// replaces the role's own dependencies unless it is nil; MaxTasks replaces the role's own unless it is 0.
type Settings struct {
	Host         string        // ARCHON_HOST: the address to listen on; the loopback address if empty
	Port         int           // ARCHON_PORT; 0: a free one
	Registry     string        // ARCHON_REGISTRY: host:port
	Attach       string        // ARCHON_ATTACH: host:port of an orchestrator to attach to, in place of serving
	Orchestrator string        // ARCHON_ORCHESTRATOR: host:port of an orchestrator to attach to if none can dial the agent
	Advertise    string        // ARCHON_ADVERTISE: host or host:port as others dial the agent
	DependsOn    []string      // ARCHON_DEPENDS_ON: roles, separated by commas
	MaxTasks     int           // ARCHON_MAX_TASKS
	TTL          time.Duration // ARCHON_TTL: the lease of the registration; 0: 10 s
	Drain        time.Duration // ARCHON_DRAIN: how long tasks may take after SIGTERM; 0: 30 s, below 0: no time
	LogLevel     slog.Level    // ARCHON_LOG_LEVEL: debug, info, warning or error
	LogFormat    string        // ARCHON_LOG_FORMAT: auto, text or json
	Memory       string        // ARCHON_MEMORY: host:port of the memory service
	ReadyFile    string        // ARCHON_READY_FILE: gets the address once the agent serves
}

// SettingsFromEnvironment reads the ARCHON_* variables. It returns an error that names the variable with an invalid value.
func SettingsFromEnvironment() (Settings, error) { return settingsFrom(os.Getenv, os.LookupEnv) }

func settingsFrom(get func(string) string, lookup func(string) (string, bool)) (Settings, error) {
	env := &reader{get: func(name string) string {
		return strings.TrimSpace(strings.TrimPrefix(get(name), "\ufeff"))
	}}
	s := Settings{
		Host:         env.get("ARCHON_HOST"),
		Registry:     env.get("ARCHON_REGISTRY"),
		Attach:       env.get("ARCHON_ATTACH"),
		Orchestrator: env.get("ARCHON_ORCHESTRATOR"),
		Advertise:    env.get("ARCHON_ADVERTISE"),
		Memory:       env.get("ARCHON_MEMORY"),
		ReadyFile:    env.get("ARCHON_READY_FILE"),
		MaxTasks:     env.whole("ARCHON_MAX_TASKS", 100_000),
		TTL:          env.seconds("ARCHON_TTL", 10, 1, 3600),
		Drain:        env.seconds("ARCHON_DRAIN", defaultDrain.Seconds(), 0, 3600),
		LogFormat:    env.choice("ARCHON_LOG_FORMAT", "auto", "text", "json"),
	}
	if !strings.HasPrefix(env.get("ARCHON_PORT"), "tcp://") { // set by Kubernetes for a Service named archon
		s.Port = env.whole("ARCHON_PORT", 65535)
	}
	if s.Drain == 0 {
		s.Drain = -1
	}
	if text, ok := lookup("ARCHON_DEPENDS_ON"); ok {
		s.DependsOn = []string{}
		for _, role := range strings.Split(text, ",") {
			if role = strings.TrimSpace(role); role != "" {
				s.DependsOn = append(s.DependsOn, role)
			}
		}
	}
	switch env.choice("ARCHON_LOG_LEVEL", "info", "debug", "warning", "error") {
	case "debug":
		s.LogLevel = slog.LevelDebug
	case "warning":
		s.LogLevel = slog.LevelWarn
	case "error":
		s.LogLevel = slog.LevelError
	}
	return s, env.err
}

func (s *Settings) complete() {
	if s.Host == "" {
		s.Host = security.LoopbackHost()
	}
	s.Host = strings.Trim(s.Host, "[]")
	if s.TTL == 0 {
		s.TTL = 10 * time.Second
	}
	if s.Drain == 0 {
		s.Drain = defaultDrain
	}
}

// advertised returns host:port as others dial the agent.
func (s *Settings) advertised(port int) string {
	host := s.Host
	if s.Advertise != "" {
		if _, _, err := net.SplitHostPort(s.Advertise); err == nil {
			return s.Advertise
		}
		host = strings.Trim(s.Advertise, "[]")
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// reader reads variables, and keeps the first error.
type reader struct {
	get func(string) string
	err error
}

func (r *reader) fail(name, text, why string) {
	if r.err == nil {
		r.err = archon.NewError(archon.ReasonInvalidArgument,
			fmt.Sprintf("environment variable %s is '%s': %s", name, text, why), archon.WithViolation(name, why))
	}
}

func (r *reader) number(name string, fallback, least, most float64) float64 {
	text := r.get(name)
	if text == "" {
		return fallback
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) {
		r.fail(name, text, "not a number")
		return fallback
	}
	if value < least || value > most {
		r.fail(name, text, fmt.Sprintf("must be %g to %g", least, most))
		return fallback
	}
	return value
}

func (r *reader) whole(name string, most float64) int {
	value := r.number(name, 0, 0, most)
	if value != math.Trunc(value) {
		r.fail(name, r.get(name), "not a whole number")
	}
	return int(value)
}

func (r *reader) seconds(name string, fallback, least, most float64) time.Duration {
	return time.Duration(r.number(name, fallback, least, most) * float64(time.Second))
}

func (r *reader) choice(name string, choices ...string) string {
	text := strings.ToLower(r.get(name))
	if text == "" {
		return choices[0]
	}
	if !slices.Contains(choices, text) {
		r.fail(name, text, "must be one of "+strings.Join(choices, ", "))
		return choices[0]
	}
	return text
}
