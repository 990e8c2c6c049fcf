// Command attached is an agent that cannot be dialled: it dials the orchestrator.
package main

import (
	"context"
	"log"
	"os"

	"github.com/archon-mesh/archon/sdk/go/agent"
)

func main() {
	handler := func(_ context.Context, task *agent.Task) (agent.Answer, error) { return agent.Text(task.Text()), nil }
	server, err := agent.New("laptop", handler, agent.WithAttach("mesh.example:7100"))
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}
