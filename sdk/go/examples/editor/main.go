// Command editor delegates, streams text, saves checkpoints and records its calls.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
)

// edit has another role write a draft, and improves it.
func edit(ctx context.Context, task *agent.Task) (agent.Answer, error) {
	draft := string(task.Checkpoint()) // of an earlier attempt, which was lost
	if draft == "" {
		written, err := task.Delegate(ctx, agent.Delegation{Role: "writer", Text: task.Text(), Timeout: time.Minute})
		switch {
		case errors.Is(err, archon.ReasonUnknownRole):
			return agent.Answer{}, agent.Rejected("there is no writer to edit")
		case err != nil:
			return agent.Answer{}, err
		}
		draft = written.Text
		if err := task.Save([]byte(draft)); err != nil {
			return agent.Answer{}, err
		}
	}
	task.Write("improving ... ")
	began := time.Now()
	better, err := improve(ctx, draft)
	if err != nil {
		return agent.Answer{}, archon.NewError(archon.ReasonUnavailable, "the model is away", archon.WithKind(archon.KindModelProvider))
	}
	err = task.RecordModelCall(agent.ModelCall{
		Model: "small-1", Request: map[string]string{"prompt": draft}, Response: better, Started: began,
		Duration: time.Since(began), Usage: archon.Usage{InputTokens: 120, OutputTokens: 80},
	})
	return agent.Text(better), err
}

// improve stands for a call of a model.
func improve(ctx context.Context, draft string) (string, error) { return draft + "!", ctx.Err() }

func main() {
	server, err := agent.New("editor", edit, agent.WithDependsOn("researcher"), agent.WithMaxTasks(4))
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}
