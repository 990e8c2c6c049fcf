// Command submit submits a run and watches it: submit HOST:PORT ROLE GOAL
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/runview"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := archon.NewClient(os.Args[1]) // host:port of the orchestrator
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	run, err := client.Submit(ctx, archon.Submission{
		Goal: os.Args[3], Roles: []string{os.Args[2]}, Timeout: 5 * time.Minute,
		Budget: &archon.Budget{MaxTokens: 100_000},
	})
	if err != nil {
		log.Fatal(err)
	}
	view := runview.New()
	for event, err := range run.Events(ctx) { // resumes by itself where a stream breaks
		if err != nil {
			log.Fatal(err)
		}
		view.Apply(event)
		if delta := event.Proto.GetTextDelta(); delta != nil {
			fmt.Print(delta.GetText())
		}
		for _, question := range view.Questions() {
			fmt.Printf("\n%s asks: %s (%s)\n", question.Role, question.Text, question.InputID)
		}
	}
	if view.Failure != nil {
		log.Fatalf("%s: %s", view.State, view.Failure)
	}
	fmt.Printf("\n%s: %s\n", view.State, view.Output())
}
