package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/archon-mesh/archon/sdk/go/agent"
)

// serveEcho serves the role ECHO_ROLE as a process of its own, and returns its exit code. It answers with its context after ECHO_DELAY
// seconds; every execution appends lines to the file ECHO_LEDGER, unless it is empty.
func serveEcho() int {
	role := os.Getenv("ECHO_ROLE")
	seconds, _ := strconv.ParseFloat(os.Getenv("ECHO_DELAY"), 64)
	server, err := agent.New(role, func(ctx context.Context, task *agent.Task) (agent.Answer, error) {
		note(role, "begin", task)
		task.Write(role + " is thinking")
		select {
		case <-time.After(time.Duration(seconds * float64(time.Second))):
		case <-ctx.Done():
			return agent.Answer{}, ctx.Err()
		}
		note(role, "end", task)
		texts := []string{}
		for _, item := range task.Context() {
			texts = append(texts, item.Text)
		}
		return agent.Text(fmt.Sprintf("%s(%s)", role, strings.Join(texts, ", "))), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return server.Run(context.Background())
}

// note appends a line to the ledger.
func note(role, verb string, task *agent.Task) {
	path := os.Getenv("ECHO_LEDGER")
	if path == "" {
		return
	}
	ledger, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer ledger.Close()
	fmt.Fprintf(ledger, "%s %s %s %d %d\n", verb, role, task.ID(), task.Attempt(), os.Getpid())
}
