package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

// Run serves until SIGTERM, SIGINT, or the end of the context, then drains, with logs on standard error. It returns the exit
// code of the process: 0 after a drain, 1 if the agent could not start, or left a handler behind that ignores its context.
func (s *Server) Run(ctx context.Context) int {
	slog.SetDefault(s.settings.logger(s.role, s.instanceID))
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer release()
	if err := s.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return 0
		}
		slog.Error("the agent could not start", append(s.whereabouts(), "error", err)...)
		return 1
	}
	address := s.Address()
	if err := announce(s.settings.ReadyFile, address); err != nil {
		slog.Error("the ready file cannot be written", "error", err)
	}
	if s.settings.Registry == "" || s.settings.Attach != "" || s.Registered() {
		slog.Info("serving", s.whereabouts()...)
	} else {
		slog.Warn("serving, but not registered yet: no orchestrator finds this agent", s.whereabouts()...)
	}
	code := s.untilOver(ctx)
	release() // a second signal ends the process at once
	if tasks := s.tasksInProgress(); tasks > 0 {
		slog.Info("stopping once its tasks have ended; a second signal ends it at once",
			"role", s.role, "tasks", tasks, "at_most", max(0, s.settings.Drain).String())
	}
	s.Stop(s.settings.Drain)
	if s.settings.ReadyFile != "" {
		if err := os.Remove(s.settings.ReadyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			slog.Warn("the ready file cannot be removed", "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leftOver > 0 {
		return 1
	}
	return code
}

// whereabouts returns the role, and where the agent listens, registers or attaches, for logs.
func (s *Server) whereabouts() []any {
	where := []any{"role", s.role}
	if address := s.Address(); address != "" {
		where = append(where, "address", address)
	}
	switch {
	case s.settings.Attach != "":
		where = append(where, "attached_to", s.settings.Attach)
	case s.settings.Registry != "":
		where = append(where, "registry", s.settings.Registry)
	}
	return where
}

func (s *Server) tasksInProgress() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.working()
}

// untilOver waits for a signal, or until the registry, which was unreachable at the start, refuses the registration.
func (s *Server) untilOver(ctx context.Context) int {
	var invalid <-chan struct{}
	s.mu.Lock()
	handle := s.handle
	s.mu.Unlock()
	if handle != nil {
		invalid = handle.Invalid()
	}
	select {
	case <-ctx.Done():
		return 0
	case <-invalid:
		slog.Error("the registry has refused the registration", "error", handle.Err())
		return 1
	}
}

func (s *Settings) logger(role, instanceID string) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel}
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	if s.LogFormat == "json" || (s.LogFormat == "auto" && !terminal) {
		return slog.New(slog.NewJSONHandler(os.Stderr, options)).With("service", role, "instance_id", instanceID)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// announce writes the address to the ready file, if there is one, atomically.
func announce(file, address string) error {
	if file == "" {
		return nil
	}
	partial := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+"."+strconv.Itoa(os.Getpid()))
	_ = os.Remove(partial)                                                // of a process that was killed, or a link
	if err := os.WriteFile(partial, []byte(address), 0o644); err != nil { //nolint:gosec // others read the address
		return err
	}
	return os.Rename(partial, file)
}
