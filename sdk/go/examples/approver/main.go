// Command approver asks people: while its attempt goes on, and with a question that ends it.
package main

import (
	"context"
	"log"
	"os"

	"github.com/archon-mesh/archon/sdk/go/agent"
)

func book(ctx context.Context, task *agent.Task) (agent.Answer, error) {
	// The attempt keeps its slot and its state; the time of the task stands still.
	seats, err := task.Ask(ctx, agent.Question{Text: "How many seats?", SchemaJSON: `{"type": "integer"}`})
	if err != nil {
		return agent.Answer{}, err
	}
	// An answer that may take days: the attempt ends, and the next one has the answer and the checkpoint.
	approved, ok := task.Answers()["approval"]
	if !ok {
		return agent.Ask(agent.Question{
			InputID: "approval", Text: "Book " + seats.Text + " seats?", IsApproval: true, Checkpoint: []byte(seats.Text),
		}), nil
	}
	if approved.Decision != "approve" {
		return agent.Text("nothing was booked: " + approved.Text), nil
	}
	return agent.Text(string(task.Checkpoint()) + " seats are booked"), nil
}

func main() {
	server, err := agent.New("approver", book)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}
