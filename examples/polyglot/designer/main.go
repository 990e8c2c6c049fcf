// The second role, in Go: a design for the requirements, at which it works for three seconds.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/archon-mesh/archon/sdk/go/agent"
)

func design(ctx context.Context, task *agent.Task) (agent.Answer, error) {
	var parts []string
	for _, item := range task.Context() {
		for number, requirement := range strings.Split(item.Text, "\n") {
			task.Write(fmt.Sprintf("designing part %d ... ", number+1))
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return agent.Answer{}, ctx.Err()
			}
			parts = append(parts, "a component for: "+requirement[3:])
		}
	}
	return agent.Text(strings.Join(parts, "\n")), nil
}

func main() {
	defer tracing()()
	server, err := agent.New("designer", design, agent.WithDescription("Designs."), agent.WithDependsOn("requirements"))
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}
