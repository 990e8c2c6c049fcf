// Command reader uses a tool of another agent.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/archon-mesh/archon/sdk/go/agent"
	"github.com/archon-mesh/archon/sdk/go/registry"
	"github.com/archon-mesh/archon/sdk/go/tools"
)

func main() {
	mesh, err := registry.Connect(os.Getenv("ARCHON_REGISTRY"))
	if err != nil {
		log.Fatal(err)
	}
	client := tools.NewClient(mesh, "reader")

	handler := func(ctx context.Context, _ *agent.Task) (agent.Answer, error) {
		multiply := client.Lease(ctx, "multiply", "") // of the best instance that shares it, for this task
		defer multiply.Release()
		result, err := multiply.Execute(ctx, map[string]float64{"a": 6, "b": 7}, tools.CallOptions{Timeout: 5 * time.Second})
		if err != nil {
			return agent.Answer{}, err
		}
		if !result.OK() { // the tool itself has failed
			return agent.Text("no product: " + result.ErrorMessage), nil
		}
		return agent.Text(result.ContentJSON), nil
	}
	server, err := agent.New("reader", handler)
	if err != nil {
		log.Fatal(err)
	}
	code := server.Run(context.Background())
	_ = client.Close()
	_ = mesh.Close()
	os.Exit(code)
}
