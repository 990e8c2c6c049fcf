// Command translator is the smallest agent.
package main

import (
	"context"
	"log"
	"os"

	"github.com/archon-mesh/archon/sdk/go/agent"
)

func translate(_ context.Context, task *agent.Task) (agent.Answer, error) {
	return agent.Text("Bonjour, " + task.Text()), nil
}

func main() {
	server, err := agent.New("translator", translate, agent.WithDescription("Translates to French"))
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}
