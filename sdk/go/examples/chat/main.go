// Command chat exchanges messages with other agents of its run.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/archon-mesh/archon/sdk/go/agent"
)

// lead asks another role, tells everybody the result, and collects remarks for a while.
func lead(ctx context.Context, task *agent.Task) (agent.Answer, error) {
	reply, err := task.Request(ctx, agent.Outgoing{To: "critic", Content: map[string]string{"description": task.Text()}})
	if err != nil {
		return agent.Answer{}, err
	}
	if _, err := task.Send(ctx, agent.Outgoing{Content: reply.Text(), Type: agent.StatusUpdate}); err != nil {
		return agent.Answer{}, err
	}
	remarks, done := context.WithTimeout(ctx, 2*time.Second)
	defer done()
	answer := reply.Text()
	for {
		message, err := task.Receive(remarks)
		if err != nil {
			return agent.Text(answer), ctx.Err() // no further remark in time
		}
		answer += "\n" + message.SenderID + ": " + message.Text()
	}
}

// answer handles messages while the task works.
func answer(_ context.Context, message *agent.Message, _ *agent.Task) (any, error) {
	return "you said: " + message.Text(), nil
}

func main() {
	role, options := "lead", []agent.Option{}
	if len(os.Args) > 1 {
		role, options = os.Args[1], append(options, agent.OnMessage(answer, "broadcast"))
	}
	server, err := agent.New(role, lead, options...)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}
