// Command calculator shares a tool with other agents.
package main

import (
	"context"
	"log"
	"os"

	"github.com/archon-mesh/archon/sdk/go/agent"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

var multiply = tools.SharedTool{
	Tool: tools.Tool{
		Name: "multiply", Description: "Multiplies two numbers", ReadOnly: true, Idempotent: true,
		InputSchemaJSON: `{"type": "object", "required": ["a", "b"],
			"properties": {"a": {"type": "number"}, "b": {"type": "number"}}}`,
	},
	Execute: func(_ context.Context, call *tools.Call) (any, error) {
		var given struct{ A, B float64 }
		if err := call.Decode(&given); err != nil {
			return nil, err
		}
		return given.A * given.B, nil
	},
	MaxCallsPerMinute: 600,
}

func main() {
	handler := func(context.Context, *agent.Task) (agent.Answer, error) { return agent.Text("lease my tool"), nil }
	server, err := agent.New("calculator", handler, agent.WithSharedTools(multiply))
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}
