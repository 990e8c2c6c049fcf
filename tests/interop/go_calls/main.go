// A role over the SDK that calls a model and a tool, both of its own, and records the calls. It takes its role, the roles
// that it depends on, the word that its answer begins with, and the file to which it adds a line for each task.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
)

func main() {
	role, upstream, word, ledger := os.Args[1], strings.Split(os.Args[2], ","), os.Args[3], os.Args[4]
	answer := func(_ context.Context, task *agent.Task) (agent.Answer, error) {
		if err := note(ledger, role+" "+task.ID()+"\n"); err != nil {
			return agent.Answer{}, err
		}
		var texts []string
		for _, item := range task.Context() {
			texts = append(texts, item.Text)
		}
		text := fmt.Sprintf("%s by %s of [%s]", word, role, strings.Join(texts, "; "))
		err := task.RecordToolCall(agent.ToolCall{
			Tool: "look_up", Arguments: map[string]any{"of": role}, Result: map[string]any{"found": len(texts)},
			Started: time.Now(), Duration: time.Millisecond,
		})
		if err != nil {
			return agent.Answer{}, err
		}
		err = task.RecordModelCall(agent.ModelCall{
			Model: "small", Request: map[string]any{"prompt": task.Text()}, Response: map[string]any{"text": text},
			Started: time.Now(), Duration: time.Millisecond, Usage: archon.Usage{InputTokens: 12, OutputTokens: 7},
		})
		return agent.Text(text), err
	}
	server, err := agent.New(role, answer, agent.WithDependsOn(upstream...))
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}

func note(file, line string) error {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = out.WriteString(line)
	return err
}
