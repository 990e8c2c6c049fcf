// Command tracing calls another system within the deadline and the trace of its task.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"go.opentelemetry.io/otel"

	archon "github.com/archon-mesh/archon/sdk/go"
	"github.com/archon-mesh/archon/sdk/go/agent"
)

func look(ctx context.Context, task *agent.Task) (agent.Answer, error) {
	ctx, span := otel.Tracer("my-agent").Start(ctx, "look up") // a child of the span of this attempt
	defer span.End()
	// The request ends with the task's time, or as soon as the task is cancelled.
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com", nil)
	if err != nil {
		return agent.Answer{}, err
	}
	traceparent, _ := archon.TraceOf(ctx)
	request.Header.Set("traceparent", traceparent)
	request.Header.Set("Idempotency-Key", task.IdempotencyKey()) // the same for all attempts
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return agent.Answer{}, archon.NewError(archon.ReasonUnavailable, "the page is away", archon.WithKind(archon.KindToolNetwork))
	}
	defer response.Body.Close()
	return agent.Text(response.Status), nil
}

func main() {
	server, err := agent.New("lookup", look)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(server.Run(context.Background()))
}
